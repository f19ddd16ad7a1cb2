//===- Tables.cpp - scaling by powers of two, and tables in registers -----===//
// SPDX-License-Identifier: Apache-2.0

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "native/isa/x86/Intrinsic.h"
#include "native/isa/x86/X86Isa.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

constexpr int64_t floatLanes = 16; ///< of AVX-512
constexpr int64_t shortLanes = 32;

/// Whether a type fills one or several registers with f32.
bool fillsRegisters(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getElementType().isF32() &&
         vector.getNumElements() % floatLanes == 0;
}

Value constant(OpBuilder &b, Location loc, TypedAttr attr) {
  return b.create<arith::ConstantOp>(loc, attr);
}

/// Calls `body` for each register of the operands, and joins the results.
Value byRegisters(OpBuilder &b, Location loc, ValueRange operands,
                  llvm::function_ref<Value(ValueRange)> body) {
  int64_t lanes = lanesOf(operands[0]);
  if (lanes == floatLanes)
    return body(operands);
  auto type = VectorType::get({lanes}, b.getF32Type());
  Value result = constant(b, loc, cast<TypedAttr>(b.getZeroAttr(type)));
  for (int64_t at = 0; at < lanes; at += floatLanes) {
    SmallVector<Value> parts;
    for (Value operand : operands)
      parts.push_back(b.create<vector::ExtractStridedSliceOp>(loc, operand, at,
                                                              floatLanes, 1));
    result =
        b.create<vector::InsertStridedSliceOp>(loc, body(parts), result, at, 1);
  }
  return result;
}

/// A register of f32 with the elements of a table from `first` on.
Value partOfTable(OpBuilder &b, Location loc, DenseElementsAttr table,
                  int64_t first) {
  auto type = VectorType::get({floatLanes}, b.getF32Type());
  SmallVector<float> values(table.getValues<float>());
  return constant(
      b, loc,
      DenseElementsAttr::get(type, ArrayRef(values).slice(first, floatLanes)));
}

} // namespace

bool X86Isa::hasScale(Type type) const {
  return features.avx512 && fillsRegisters(type);
}

Value X86Isa::scale(OpBuilder &b, Location loc, Value a, Value n) const {
  Value all = constant(b, loc, b.getI16IntegerAttr(-1));
  Value currentRounding = constant(b, loc, b.getI32IntegerAttr(4));
  return byRegisters(b, loc, {a, n}, [&](ValueRange parts) {
    return callX86(b, loc, "avx512.mask.scalef.ps.512", parts[0].getType(),
                   {parts[0], parts[1], parts[0], all, currentRounding});
  });
}

bool X86Isa::hasLookup(Type type) const {
  auto vector = dyn_cast<VectorType>(type);
  bool areShorts = vector && vector.getElementType().isInteger(16) &&
                   vector.getNumElements() == shortLanes;
  return features.avx512 && (areShorts || fillsRegisters(type));
}

Value X86Isa::lookup(OpBuilder &b, Location loc, DenseElementsAttr table,
                     Value index) const {
  if (table.getElementType().isInteger(16))
    return callX86(b, loc, "avx512.permvar.hi.512", table.getType(),
                   {constant(b, loc, table), index});
  Value low = partOfTable(b, loc, table, 0);
  if (table.getNumElements() == floatLanes)
    return byRegisters(b, loc, index, [&](ValueRange parts) {
      return callX86(b, loc, "avx512.permvar.sf.512", low.getType(),
                     {low, parts[0]});
    });
  Value high = partOfTable(b, loc, table, floatLanes);
  return byRegisters(b, loc, index, [&](ValueRange parts) {
    return callX86(b, loc, "avx512.vpermi2var.ps.512", low.getType(),
                   {low, parts[0], high});
  });
}

} // namespace native
} // namespace anabranch
