//===- ExpandF16.cpp - f16 to floats and back -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/narrow/ExpandF16.h"

#include "native/math/MathBuilder.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

// Both have a sign, an exponent and a mantissa, of these bits.
constexpr int64_t signBit = 31, moreMantissa = 13, signShift = 16;
constexpr int64_t f32Infinity = 0x7f800000, f16Infinity = 0x7c00,
                  f16Nan = 0x7e00;
/// The exponent of an f32, minus that of the f16 of the same value.
constexpr int64_t exponentDistance = int64_t(127 - 15) << 23;
/// The bits of the smallest normal f16, and of the number after the largest
/// f16, as f32.
constexpr int64_t leastNormal = int64_t(113) << 23, tooLarge = int64_t(143)
                                                               << 23;

Value signMask(const MathBuilder &m) {
  return m.integer(static_cast<int32_t>(uint32_t(1) << signBit));
}

/// The f32 of an f16. A multiplication by a power of two normalises subnormal
/// numbers too.
Value widen(const MathBuilder &m, Value half) {
  Type shorts = m.withElement(m.builder.getI16Type());
  Value bits = m.builder.create<arith::ExtUIOp>(
      m.loc, m.bitsType,
      m.builder.create<arith::BitcastOp>(m.loc, shorts, half));
  Value sign = m.andBits(m.shiftLeft(bits, signShift), signMask(m));
  // LLVM would make `fabs` of a mask before the shift, and convert f16 for it.
  constexpr int64_t withoutSign = signShift + 1;
  Value moved =
      m.shiftRight(m.shiftLeft(bits, withoutSign), withoutSign - moreMantissa);
  Value number = m.bits(m.mul(m.fromBits(moved), m.number(0x1p112)));
  Value special = m.orBits(moved, m.integer(f32Infinity));
  Value isSpecial = m.atLeastBits(moved, f16Infinity << moreMantissa);
  return m.fromBits(m.orBits(m.select(isSpecial, special, number), sign));
}

/// The bits of the f16 nearest to an f32, in integers of 32 bits.
Value roundToBits(const MathBuilder &m, Value number) {
  Value bits = m.bits(number);
  Value sign = m.andBits(bits, signMask(m));
  Value magnitude = m.xorBits(bits, sign);
  // Half of the last place, or a little less if the place before is even.
  Value odd = m.andBits(m.shiftRight(magnitude, moreMantissa), m.integer(1));
  Value rounded = m.addBits(magnitude, m.addBits(odd, m.integer(0xfff)));
  Value normal = m.shiftRight(m.subBits(rounded, m.integer(exponentDistance)),
                              moreMantissa);
  // The last place of 0.5 is that of a subnormal f16: the sum rounds to it.
  Value half = m.number(0.5);
  Value subnormal =
      m.subBits(m.bits(m.add(m.fromBits(magnitude), half)), m.bits(half));
  Value finite =
      m.select(m.atLeastBits(magnitude, leastNormal), normal, subnormal);
  Value special = m.select(m.atLeastBits(magnitude, f32Infinity + 1),
                           m.integer(f16Nan), m.integer(f16Infinity));
  Value result = m.select(m.atLeastBits(magnitude, tooLarge), special, finite);
  return m.orBits(result, m.shiftRight(sign, signShift));
}

Value narrow(const MathBuilder &m, Value number) {
  OpBuilder &b = m.builder;
  Value shorts = b.create<arith::TruncIOp>(m.loc, m.withElement(b.getI16Type()),
                                           roundToBits(m, number));
  return b.create<arith::BitcastOp>(m.loc, m.withElement(b.getF16Type()),
                                    shorts);
}

Type elementOf(Value value) { return getElementTypeOrSelf(value.getType()); }

/// The value of a conversion by way of f32.
Value expand(Operation *op, const TargetInfo &target) {
  OpBuilder builder(op);
  Value from = op->getOperand(0), result = op->getResult(0);
  Type f32 = builder.getF32Type();
  if (auto vector = dyn_cast<VectorType>(from.getType()))
    f32 = vector.clone(f32);
  MathBuilder m(builder, op->getLoc(), f32, target);
  if (isa<arith::ExtFOp>(op)) {
    Value wide = widen(m, from);
    return result.getType() == f32 ? wide
                                   : Value(builder.create<arith::ExtFOp>(
                                         op->getLoc(), result.getType(), wide));
  }
  if (from.getType() != f32)
    from = builder.create<arith::TruncFOp>(op->getLoc(), f32, from);
  return narrow(m, from);
}

} // namespace

void expandF16(ModuleOp module, const TargetInfo &target) {
  if (target.isa().convertsF16())
    return;
  SmallVector<Operation *> conversions;
  module.walk([&](Operation *op) {
    if ((isa<arith::ExtFOp>(op) && elementOf(op->getOperand(0)).isF16()) ||
        (isa<arith::TruncFOp>(op) && elementOf(op->getResult(0)).isF16()))
      conversions.push_back(op);
  });
  for (Operation *op : conversions) {
    op->getResult(0).replaceAllUsesWith(expand(op, target));
    op->erase();
  }
}

} // namespace native
} // namespace anabranch
