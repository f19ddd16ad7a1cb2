//===- TypedMemory.cpp - scratch memory of one element type ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/TypedMemory.h"

#include "kernels/emit/Memory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

int64_t TypedMemory::elementBytes() const {
  return kernels::elementBytes(element);
}

Type TypedMemory::vectorType() const {
  return VectorType::get({width}, element);
}

Value TypedMemory::pointerTo(Value memory, Value offset) const {
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  return lanes.make<LLVM::GEPOp>(pointer, element, memory,
                                 ArrayRef<LLVM::GEPArg>{lanes.toI64(offset)});
}

Value TypedMemory::loadVector(Value memory, Value offset) const {
  return lanes.builder.create<LLVM::LoadOp>(
      lanes.loc, vectorType(), pointerTo(memory, offset), elementBytes());
}

Value TypedMemory::loadScalar(Value memory, Value offset) const {
  return lanes.builder.create<LLVM::LoadOp>(
      lanes.loc, element, pointerTo(memory, offset), elementBytes());
}

void TypedMemory::store(Value value, Value memory, Value offset) const {
  lanes.builder.create<LLVM::StoreOp>(
      lanes.loc, value, pointerTo(memory, offset), elementBytes());
}

void TypedMemory::storeMasked(Value vector, Value memory, Value offset,
                              Value mask) const {
  lanes.builder.create<LLVM::MaskedStoreOp>(
      lanes.loc, vector, pointerTo(memory, offset), mask,
      lanes.builder.getI32IntegerAttr(elementBytes()));
}

Value TypedMemory::zero(Type type) const {
  return lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(type)));
}

Value TypedMemory::zeroVector() const { return zero(vectorType()); }

Value TypedMemory::filledVector(int8_t byte) const {
  if (byte == 0)
    return zeroVector();
  unsigned bits = element.getIntOrFloatBitWidth();
  auto number = IntegerAttr::get(
      element, llvm::APInt::getSplat(bits, llvm::APInt(8, uint8_t(byte))));
  return lanes.constant(
      DenseElementsAttr::get(cast<ShapedType>(vectorType()), number));
}

Value TypedMemory::zeroScalar() const { return zero(element); }

Value TypedMemory::loadExtended(Type from, Value memory, Value offset) const {
  Value loaded = TypedMemory(lanes, from, width).loadVector(memory, offset);
  return extendFloat(Lanes::varying(loaded)).value;
}

Lanes TypedMemory::extendFloat(Lanes value) const {
  Type from = laneType(value.value);
  if (from == element)
    return value;
  if (from.isBF16() && element.isF32())
    return lanes.wrap(extendBF16(lanes, value.value));
  auto vector = dyn_cast<VectorType>(value.value.getType());
  Type type = vector ? Type(vector.clone(element)) : element;
  return lanes.wrap(lanes.make<arith::ExtFOp>(type, value.value));
}

} // namespace kernels
} // namespace anabranch
