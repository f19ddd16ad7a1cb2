//===- LoweringBuilder.cpp - what lowerings build with --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/LoweringBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace importer {

LogicalResult LoweringBuilder::refuse(const Twine &why) {
  reason = why.str();
  return failure();
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

Operand LoweringBuilder::operand(StringRef name) {
  if (Value value = op.getOperandArg(name)) {
    if (value.getType().isF64())
      askedReals.insert(name);
    return tensor(value, op.isUnsigned(value));
  }
  Attribute literal = op.getArg(name);
  if (auto flag = dyn_cast_or_null<BoolAttr>(literal))
    return boolean(flag.getValue());
  if (auto integer = dyn_cast_or_null<IntegerAttr>(literal))
    return number(integer.getInt());
  if (auto real = dyn_cast_or_null<FloatAttr>(literal))
    return number(real.getValueAsDouble());
  return {};
}

bool LoweringBuilder::readsAllReals() {
  ir::AtenOp call = op;
  return llvm::all_of(call.getArgs(), [&](NamedAttribute argument) {
    StringRef name = argument.getName();
    auto isReal = [](Value value) { return value && value.getType().isF64(); };
    return !llvm::any_of(call.getOperandListArg(name), isReal) &&
           (!isReal(call.getOperandArg(name)) || askedReals.contains(name));
  });
}

SmallVector<Operand> LoweringBuilder::operandList(StringRef name) {
  SmallVector<Operand> operands;
  for (Value value : op.getOperandListArg(name))
    operands.push_back(value ? tensor(value, op.isUnsigned(value)) : Operand());
  return operands;
}

Operand LoweringBuilder::tensor(Value value, bool isUnsigned) {
  if (value.getType().isIndex())
    return {value, {}, DType::integer(context(), 64)};
  if (value.getType().isF64()) {
    // Kernels take words, so the float's bits are passed as an index.
    Value word = builder.createOrFold<arith::BitcastOp>(
        loc, builder.getI64Type(), value);
    Value bits = builder.createOrFold<arith::IndexCastOp>(
        loc, builder.getIndexType(), word);
    return {bits, {}, DType::f64(context())};
  }
  return {value, {}, {getElementTypeOrSelf(value.getType()), isUnsigned}};
}

Operand LoweringBuilder::number(double value) {
  return {{}, builder.getF64FloatAttr(value), DType::f64(context())};
}
Operand LoweringBuilder::number(int64_t value) {
  return {{}, builder.getI64IntegerAttr(value), DType::integer(context(), 64)};
}
Operand LoweringBuilder::boolean(bool value) {
  return {{}, builder.getBoolAttr(value), DType::boolean(context())};
}

DType LoweringBuilder::resultDType(unsigned i) {
  return {getElementTypeOrSelf(op.getResult(i).getType()),
          op.isUnsignedResult(i)};
}

RankedTensorType LoweringBuilder::resultType(unsigned i) {
  return cast<RankedTensorType>(op.getResult(i).getType());
}

std::optional<DType> LoweringBuilder::dtypeArg(StringRef name) {
  auto attr = dyn_cast_or_null<TypeAttr>(op.getArg(name));
  if (!attr)
    return std::nullopt;
  Type type = attr.getValue();
  if (type.isUnsignedInteger(8))
    return DType{builder.getIntegerType(8), /*isUnsigned=*/true};
  return DType{type};
}

int64_t LoweringBuilder::wrapDim(int64_t dim, int64_t rank) {
  return dim < 0 ? dim + std::max<int64_t>(rank, 1) : dim;
}

DType LoweringBuilder::promote(ArrayRef<Operand> operands) {
  Promotion promotion;
  for (const Operand &operand : operands) {
    if (!operand)
      continue;
    if (operand.isTensor())
      promotion.add(operand.dtype,
                    operand.rank() == 0 ? Rank::ZeroDim : Rank::Tensor);
    else // a Python float stands for the default dtype
      promotion.add(operand.dtype.isFloat() ? DType::f32(context())
                                            : operand.dtype,
                    Rank::Wrapped);
  }
  return promotion.result().value_or(DType::f32(context()));
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

Sizes LoweringBuilder::sizesOf(Value tensor) {
  Sizes sizes;
  int64_t rank = cast<RankedTensorType>(tensor.getType()).getRank();
  for (int64_t dim = 0; dim < rank; ++dim)
    sizes.push_back(sizeOf(tensor, dim));
  return sizes;
}

Sizes LoweringBuilder::resultSizes(unsigned i) { return op.getResultSizes(i); }

OpFoldResult LoweringBuilder::indexAttr(int64_t value) {
  return builder.getIndexAttr(value);
}

Value LoweringBuilder::indexValue(OpFoldResult size) {
  return getValueOrCreateConstantIndexOp(builder, loc, size);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

Value LoweringBuilder::empty(ArrayRef<OpFoldResult> sizes, DType dtype) {
  return create<tensor::EmptyOp>(sizes, dtype.type);
}

Value LoweringBuilder::fill(ArrayRef<OpFoldResult> sizes, DType dtype,
                            double number) {
  Body body{builder, loc};
  Value value = s::constant(body, dtype, number).value;
  return create<linalg::FillOp>(value, empty(sizes, dtype)).getResult(0);
}

Value LoweringBuilder::fill(ArrayRef<OpFoldResult> sizes, DType dtype,
                            const Operand &scalar) {
  Body body{builder, loc};
  Value value = scalarElement(body, scalar, dtype).value;
  return create<linalg::FillOp>(value, empty(sizes, dtype)).getResult(0);
}

/// Aligns the operand's dimensions with the last ones of the iteration space. A
/// size of one that repeats reads index zero.
AffineMap LoweringBuilder::broadcastMap(const Operand &operand,
                                        ArrayRef<OpFoldResult> sizes) {
  MLIRContext *context = operand.value.getContext();
  if (operand.rank() > static_cast<int64_t>(sizes.size())) {
    impossible = true;
    (void)refuse("an operand has more dimensions than the result");
    return AffineMap::getConstantMap(0, context);
  }
  int64_t offset = static_cast<int64_t>(sizes.size()) - operand.rank();
  SmallVector<AffineExpr> exprs;
  for (int64_t dim = 0; dim < operand.rank(); ++dim) {
    int64_t position =
        operand.positions.empty() ? offset + dim : operand.positions[dim];
    bool repeats =
        operand.size(dim) == 1 && getConstantIntValue(sizes[position]) != 1;
    exprs.push_back(repeats ? getAffineConstantExpr(0, context)
                            : getAffineDimExpr(position, context));
  }
  return AffineMap::get(sizes.size(), 0, exprs, context);
}

/// Removes tensors that the body does not read, so that the result does not
/// seem to depend on them. The output map still gives every loop its extent.
static void dropUnread(linalg::GenericOp generic) {
  Block *body = generic.getBody();
  SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
  for (int64_t i = generic.getNumDpsInputs() - 1; i >= 0; --i) {
    if (!body->getArgument(i).use_empty())
      continue;
    generic.getInputsMutable().erase(i);
    body->eraseArgument(i);
    maps.erase(maps.begin() + i);
  }
  generic.setIndexingMapsAttr(
      Builder(generic.getContext()).getAffineMapArrayAttr(maps));
}

linalg::GenericOp LoweringBuilder::buildLoops(
    ArrayRef<Operand> operands, ArrayRef<OpFoldResult> sizes, Value init,
    AffineMap output, ArrayRef<utils::IteratorType> loops,
    llvm::function_ref<DType(DType)> elementDType,
    llvm::function_ref<Num(Body &, ArrayRef<Num>, Value)> makeBody) {
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (const Operand &operand : operands) {
    if (!operand.isTensor())
      continue;
    inputs.push_back(operand.value);
    maps.push_back(broadcastMap(operand, sizes));
  }
  maps.push_back(output);
  return create<linalg::GenericOp>(
      init.getType(), inputs, init, maps, loops,
      [&](OpBuilder &nested, Location nestedLoc, ValueRange blockArguments) {
        Body body{nested, nestedLoc};
        SmallVector<Num> elements =
            elementsOf(body, operands, blockArguments, elementDType);
        Num value = makeBody(body, elements, blockArguments.back());
        nested.create<linalg::YieldOp>(nestedLoc, value.value);
      });
}

Value LoweringBuilder::buildElementwise(
    ArrayRef<Operand> operands, DType result, ArrayRef<OpFoldResult> sizes,
    llvm::function_ref<DType(DType)> elementDType, BodyFn makeBody) {
  SmallVector<utils::IteratorType> loops(sizes.size(),
                                         utils::IteratorType::parallel);
  auto generic =
      buildLoops(operands, sizes, empty(sizes, result),
                 builder.getMultiDimIdentityMap(sizes.size()), loops,
                 elementDType, [&](Body &body, ArrayRef<Num> elements, Value) {
                   return s::cast(makeBody(body, elements), result);
                 });
  dropUnread(generic);
  return generic.getResult(0);
}

Value LoweringBuilder::elementwise(ArrayRef<Operand> operands, DType compute,
                                   DType result, ArrayRef<OpFoldResult> sizes,
                                   BodyFn body) {
  DType element = compute.math();
  return buildElementwise(
      operands, result, sizes, [&](DType) { return element; }, body);
}

Value LoweringBuilder::elementwiseMixed(ArrayRef<Operand> operands,
                                        DType result,
                                        ArrayRef<OpFoldResult> sizes,
                                        BodyFn body) {
  return buildElementwise(
      operands, result, sizes, [](DType own) { return own.math(); }, body);
}

Value LoweringBuilder::convert(Operand tensor, DType dtype) {
  if (tensor.dtype.type == dtype.type)
    return tensor.value;
  return elementwiseMixed(tensor, dtype, sizesOf(tensor.value),
                          [](Body &, ArrayRef<Num> x) { return x[0]; });
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value LoweringBuilder::reduce(ArrayRef<Operand> operands,
                              ArrayRef<OpFoldResult> sizes,
                              ArrayRef<int64_t> dims, Combine combine,
                              DType accumulate, BodyFn map) {
  auto own = [](DType dtype) { return dtype.math(); };
  if (dims.empty())
    return buildElementwise(operands, accumulate, sizes, own, map);
  Sizes kept;
  SmallVector<AffineExpr> keptExprs;
  SmallVector<utils::IteratorType> iterators;
  for (int64_t dim = 0; dim < static_cast<int64_t>(sizes.size()); ++dim) {
    bool reduced = llvm::is_contained(dims, dim);
    iterators.push_back(reduced ? utils::IteratorType::reduction
                                : utils::IteratorType::parallel);
    if (reduced)
      continue;
    kept.push_back(sizes[dim]);
    keptExprs.push_back(builder.getAffineDimExpr(dim));
  }
  Body outer{builder, loc};
  Value identity = identityOf(outer, combine, accumulate).value;
  Value init =
      create<linalg::FillOp>(identity, empty(kept, accumulate)).getResult(0);
  auto generic = buildLoops(
      operands, sizes, init,
      AffineMap::get(sizes.size(), 0, keptExprs, context()), iterators, own,
      [&](Body &body, ArrayRef<Num> elements, Value carried) {
        Num next = s::cast(map(body, elements), accumulate);
        return combineTwo(combine, {&body, carried, accumulate}, next);
      });
  return generic.getResult(0);
}

//===----------------------------------------------------------------------===//
// Dimensions of size one
//===----------------------------------------------------------------------===//

/// Groups the dimensions of the larger shape so that each group has exactly one
/// dimension that is not in `ones`. Empty if all are in `ones`.
static SmallVector<ReassociationIndices> groupOnes(int64_t rank,
                                                   ArrayRef<int64_t> ones) {
  SmallVector<ReassociationIndices> groups;
  ReassociationIndices leading;
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (!llvm::is_contained(ones, dim)) {
      groups.push_back(leading);
      groups.back().push_back(dim);
      leading.clear();
    } else if (groups.empty()) {
      leading.push_back(dim);
    } else {
      groups.back().push_back(dim);
    }
  }
  return groups;
}

Value LoweringBuilder::unsqueeze(Value tensor, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return tensor;
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t rank = type.getRank() + dims.size();
  Sizes sizes;
  SmallVector<int64_t> shape;
  for (int64_t dim = 0, source = 0; dim < rank; ++dim) {
    bool isNew = llvm::is_contained(dims, dim);
    sizes.push_back(isNew ? indexAttr(1) : sizeOf(tensor, source));
    shape.push_back(isNew ? 1 : type.getDimSize(source));
    source += !isNew;
  }
  auto result = RankedTensorType::get(shape, type.getElementType());
  return create<tensor::ExpandShapeOp>(result, tensor, groupOnes(rank, dims),
                                       sizes);
}

Value LoweringBuilder::squeeze(Value tensor, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return tensor;
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<int64_t> shape;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim))
      shape.push_back(type.getDimSize(dim));
  auto result = RankedTensorType::get(shape, type.getElementType());
  return create<tensor::CollapseShapeOp>(result, tensor,
                                         groupOnes(type.getRank(), dims));
}

} // namespace importer
} // namespace anabranch
