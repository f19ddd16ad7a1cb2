//===- KernelFunction.cpp - the function that a kernel becomes ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/KernelFunction.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

OperandRange returnedValues(func::FuncOp source) {
  return cast<func::ReturnOp>(source.front().getTerminator()).getOperands();
}

std::optional<unsigned> returnedAs(func::FuncOp source, Value value) {
  for (auto [number, operand] : llvm::enumerate(returnedValues(source)))
    if (operand == value)
      return number;
  return std::nullopt;
}

std::optional<unsigned> inPlaceArgument(func::FuncOp source, unsigned result) {
  auto attr =
      source.getResultAttrOfType<IntegerAttr>(result, "anabranch.in_place");
  if (!attr)
    return std::nullopt;
  return attr.getInt();
}

DenseI64ArrayAttr argumentStrides(func::FuncOp source, unsigned i) {
  return source.getArgAttrOfType<DenseI64ArrayAttr>(i, "anabranch.strides");
}

DenseI64ArrayAttr resultStrides(func::FuncOp source, unsigned i) {
  return source.getResultAttrOfType<DenseI64ArrayAttr>(i, "anabranch.strides");
}

KernelFunction::KernelFunction(func::FuncOp source,
                               const native::TargetInfo &target,
                               LaneBuilder &lanes, Value sizes)
    : source(source), target(target), lanes(lanes) {
  loadSizes(sizes);
  cloneScalars();
}

/// Loads the dynamic dimensions of the arguments, then those of the results,
/// then the index arguments.
void KernelFunction::loadSizes(Value sizes) {
  OpBuilder &b = lanes.builder;
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  int32_t slot = 0;
  auto next = [&]() -> Value {
    Value address =
        b.create<LLVM::GEPOp>(lanes.loc, pointer, b.getI64Type(), sizes,
                              ArrayRef<LLVM::GEPArg>{slot++});
    Value loaded = b.create<LLVM::LoadOp>(lanes.loc, b.getI64Type(), address);
    return lanes.make<arith::IndexCastOp>(b.getIndexType(), loaded);
  };
  auto dims = [&](Type type) {
    SmallVector<Value> values;
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      for (int64_t size : tensor.getShape())
        values.push_back(ShapedType::isDynamic(size) ? next() : Value());
    return values;
  };
  for (Type type : source.getArgumentTypes())
    argumentDims.push_back(dims(type));
  for (Type type : source.getResultTypes())
    resultDims.push_back(dims(type));
  for (BlockArgument argument : source.getArguments())
    if (!isa<RankedTensorType>(argument.getType()))
      scalars.map(argument, next());
}

void KernelFunction::cloneScalars() {
  for (Operation &op : source.front().without_terminator()) {
    if (auto dimOp = dyn_cast<tensor::DimOp>(op)) {
      if (auto number = dimOp.getConstantIndex())
        scalars.map(dimOp.getResult(), dim(dimOp.getSource(), *number));
      continue;
    }
    bool isScalar = op.getNumResults() == 1 &&
                    op.getResult(0).getType().isIntOrIndexOrFloat() &&
                    isMemoryEffectFree(&op) && op.getNumRegions() == 0;
    bool known = llvm::all_of(op.getOperands(), [&](Value operand) {
      return scalars.contains(operand);
    });
    if (!isScalar || !known)
      continue;
    Operation *clone = lanes.builder.clone(op, scalars);
    scalars.map(op.getResult(0), lanes.share(clone->getResult(0)));
  }
}

void KernelFunction::fail(Location where, const Twine &message) {
  if (!hasFailed)
    emitError(where) << message;
  hasFailed = true;
}

Value KernelFunction::size(OpFoldResult size) {
  if (auto attr = dyn_cast<Attribute>(size))
    return lanes.index(cast<IntegerAttr>(attr).getInt());
  if (Value value = scalar(cast<Value>(size)))
    return value;
  fail(cast<Value>(size).getLoc(), "size is not computed from kernel scalars");
  return lanes.index(1);
}

Value KernelFunction::dim(Value tensor, int64_t dimension) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dimension))
    return lanes.index(type.getDimSize(dimension));
  if (auto argument = dyn_cast<BlockArgument>(tensor))
    return argumentDims[argument.getArgNumber()][dimension];
  Operation *op = tensor.getDefiningOp();
  unsigned number = cast<OpResult>(tensor).getResultNumber();
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return size(empty.getMixedSizes()[dimension]);
  if (auto structured = dyn_cast<linalg::LinalgOp>(op))
    return dim(structured.getDpsInits()[number], dimension);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return dim(insert.getDest(), dimension);
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return dim(cast.getSource(), dimension);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return size(getMixedValues(expand.getStaticOutputShape(),
                               expand.getOutputShape(),
                               lanes.builder)[dimension]);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    Value product = lanes.index(1);
    ReassociationIndices group = collapse.getReassociationIndices()[dimension];
    for (int64_t part : group)
      product = lanes.mulIndex(product, dim(collapse.getSrc(), part));
    return product;
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    int64_t kept = 0;
    for (auto [i, mixed] : llvm::enumerate(slice.getMixedSizes()))
      if (!dropped.test(i) && kept++ == dimension)
        return size(mixed);
  }
  if (auto scatter = dyn_cast<ir::ScatterOp>(op))
    return dim(scatter.getInit(), dimension);
  if (auto scan = dyn_cast<ir::ScanOp>(op))
    return dim(scan.getInput(), dimension);
  if (auto attention = dyn_cast<ir::AttentionOp>(op))
    return size(OpFoldResult(
        attention.getResultDims()[type.getDynamicDimIndex(dimension)]));
  if (auto fft = dyn_cast<ir::FftOp>(op))
    return size(
        OpFoldResult(fft.getResultDims()[type.getDynamicDimIndex(dimension)]));
  fail(op->getLoc(), "size of the result of " + op->getName().getStringRef() +
                         " is not known");
  return lanes.index(1);
}

SmallVector<Value> KernelFunction::shape(Value tensor) {
  SmallVector<Value> sizes;
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  for (int64_t i = 0; i < rank; ++i)
    sizes.push_back(dim(tensor, i));
  return sizes;
}

SmallVector<Value> KernelFunction::rowMajor(ArrayRef<Value> shape) {
  SmallVector<Value> strides(shape.size());
  Value stride = lanes.index(1);
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride = lanes.mulIndex(stride, shape[i]);
  }
  return strides;
}

Buffer KernelFunction::buffer(Value pointer, Type type, ArrayRef<Value> dims,
                              DenseI64ArrayAttr strides) {
  auto tensor = cast<RankedTensorType>(type);
  Buffer result{pointer, tensor.getElementType(), {}};
  if (strides) {
    for (int64_t stride : strides.asArrayRef())
      result.strides.push_back(lanes.index(stride));
    return result;
  }
  SmallVector<Value> shape;
  for (auto [size, value] : llvm::zip(tensor.getShape(), dims))
    shape.push_back(value ? value : lanes.index(size));
  result.strides = rowMajor(shape);
  return result;
}

void KernelFunction::setPointers(ArrayRef<Value> arguments,
                                 ArrayRef<Value> results) {
  for (auto [i, type] : llvm::enumerate(source.getArgumentTypes())) {
    argumentBuffers.emplace_back();
    if (isa<RankedTensorType>(type))
      argumentBuffers.back() = buffer(arguments[i], type, argumentDims[i],
                                      argumentStrides(source, i));
  }
  for (auto [i, type] : llvm::enumerate(source.getResultTypes()))
    resultBuffers.push_back(
        buffer(results[i], type, resultDims[i], resultStrides(source, i)));
}

} // namespace kernels
} // namespace anabranch
