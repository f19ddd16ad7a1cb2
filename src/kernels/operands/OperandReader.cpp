//===- OperandReader.cpp - elements of one operand of a product -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/OperandReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

Lanes OperandReader::stored(ArrayRef<Lanes> point) {
  linalg::GenericOp op = gemm.contraction.op;
  AffineMap map = op.getIndexingMapsArray()[operand.number];
  return gemm.evaluator->evaluate(op->getOperand(operand.number),
                                  gemm.evaluator->apply(map, point));
}

Value OperandReader::bits(ArrayRef<Lanes> point) {
  Lanes value = stored(point);
  if (laneType(value.value).isBF16())
    value.value = castBits(lanes, value.value, lanes.builder.getI16Type());
  return lanes.vector(value);
}

Lanes OperandReader::element(ArrayRef<Lanes> point) {
  Lanes value = stored(point);
  if (!operand.cast)
    return value;
  Type element = gemm.contraction.element;
  Type type = value.isVarying() ? lanes.vectorType(element) : element;
  if (isa<arith::ExtSIOp>(operand.cast))
    return lanes.wrap(lanes.make<arith::ExtSIOp>(type, value.value));
  if (isa<arith::ExtUIOp>(operand.cast))
    return lanes.wrap(lanes.make<arith::ExtUIOp>(type, value.value));
  return gemm.memory.extendFloat(value);
}

Value OperandReader::words(Value row, Value column, Value depth, Value end,
                           bool whole) {
  Value vector =
      alongDepth(row, column, depth, end, whole, gemm.layout.word.kPack);
  if (gemm.layout.word.kPack == 1)
    return vector;
  return lanes.make<LLVM::BitcastOp>(gemm.memory.vectorType(), vector);
}

Value OperandReader::elements(Value row, Value column, Value depth, Value end,
                              bool whole) {
  return alongDepth(row, column, depth, end, whole, /*kPack=*/1);
}

/// Reads as many elements as a vector of words, of `kPack` each, has.
Value OperandReader::alongDepth(Value row, Value column, Value depth, Value end,
                                bool whole, int64_t kPack) {
  int64_t width = gemm.layout.tiling.lanes * kPack;
  Value mask;
  if (!whole) {
    LaneBuilder::MaskGuard guard(lanes, width, Value());
    mask = lanes.prefixMask(lanes.subIndex(end, depth));
  }
  LaneBuilder::MaskGuard guard(lanes, width, mask);
  SmallVector<Lanes> at =
      gemm.point(row, column ? Lanes::uniform(column) : Lanes(),
                 Lanes::linear(depth, 1, width));
  Value vector = kPack > 1 ? bits(at) : lanes.vector(element(at));
  if (mask) {
    // A producer may turn lanes that were not read into anything, so they are
    // cleared.
    Value zero = lanes.constant(
        cast<TypedAttr>(lanes.builder.getZeroAttr(vector.getType())));
    vector = lanes.make<arith::SelectOp>(mask, vector, zero);
  }
  return vector;
}

Value OperandReader::findAddress(ArrayRef<Lanes> point) {
  Value value = stored(point).value;
  if (auto cast = value.getDefiningOp<arith::BitcastOp>())
    value = cast.getIn();
  auto load = value.getDefiningOp<LLVM::LoadOp>();
  return load ? load.getAddr() : Value();
}

Value OperandReader::addressOf(ArrayRef<Lanes> point) {
  if (Value address = findAddress(point))
    return address;
  gemm.function.fail(lanes.loc, "operand of a contraction is no plain memory");
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  return lanes.make<LLVM::ZeroOp>(pointer);
}

OperandReader::Address OperandReader::addressAlongDepth(
    Value depth, int64_t depths,
    function_ref<SmallVector<Lanes>(Lanes depth)> pointAt) {
  Value first = addressOf(pointAt(Lanes::uniform(depth)));
  if (!depths)
    return {first, Value()};
  Value next = lanes.addIndex(depth, lanes.index(depths));
  return {first,
          byteDistance(lanes, first, addressOf(pointAt(Lanes::uniform(next))))};
}

Value byteDistance(LaneBuilder &lanes, Value from, Value to) {
  Type i64 = lanes.builder.getI64Type();
  Value a = lanes.make<LLVM::PtrToIntOp>(i64, from);
  Value b = lanes.make<LLVM::PtrToIntOp>(i64, to);
  return lanes.make<arith::SubIOp>(b, a);
}

} // namespace kernels
} // namespace anabranch
