//===- ExpandF8.cpp - floats of eight bits to f32 and back ----------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Each type is a sign, an exponent and a mantissa of some bits:
//
//   E4M3FN    bias 7   no infinity; NaN is the largest number's successor, and
//                      numbers too large become the largest one
//   E5M2      bias 15  infinity and NaN as in f16
//   E4M3FNUZ  bias 8   no infinity and no -0; NaN is the bits of -0
//   E5M2FNUZ  bias 16  likewise
//
// (FP8 Formats for Deep Learning, arXiv 2209.05433; 8-bit Numerical Formats for
// Deep Neural Networks, arXiv 2206.02915.)

#include "native/narrow/ExpandF8.h"

#include "native/math/MathBuilder.h"

#include <cmath>

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

constexpr int64_t f32Mantissa = 23, f32Bias = 127, infinityBits = 0x7f800000;
constexpr int64_t codeSign = 0x80, codeSignShift = 24;

struct Format {
  int64_t mantissa; ///< bits
  int64_t bias;
  bool hasInfinity;    ///< the largest exponent is that of infinity and NaN
  bool hasNoMinusZero; ///< its bits are NaN, which numbers too large become

  static std::optional<Format> of(Type type) {
    if (type.isFloat8E4M3FN())
      return Format{3, 7, false, false};
    if (type.isFloat8E5M2())
      return Format{2, 15, true, false};
    if (type.isFloat8E4M3FNUZ())
      return Format{3, 8, false, true};
    if (type.isFloat8E5M2FNUZ())
      return Format{2, 16, false, true};
    return std::nullopt;
  }

  /// How far the bits of a number lie below those of the same f32.
  int64_t shift() const { return f32Mantissa - mantissa; }
  /// The exponent of an f32, minus that of the same number, as f32 bits.
  int64_t exponentDistance() const { return (f32Bias - bias) << f32Mantissa; }
  double leastNormal() const { return std::ldexp(1.0, int(1 - bias)); }
  /// The first code, without its sign, that stands for no number.
  int64_t firstSpecial() const {
    return hasNoMinusZero ? codeSign : hasInfinity ? 0x7c : 0x7f;
  }
};

/// The f32 of a code below `firstSpecial`.
Value widenNumber(const MathBuilder &m, const Format &format, Value code) {
  Value moved = m.shiftLeft(code, format.shift());
  Value normal =
      m.fromBits(m.addBits(moved, m.integer(format.exponentDistance())));
  // With an exponent of one more, a subnormal code is the fraction of a number
  // that begins with the least normal one. No subnormal f32 takes part, which
  // some processors compute slowly.
  Value fraction =
      m.fromBits(m.addBits(moved, m.integer(format.exponentDistance() +
                                            (int64_t(1) << f32Mantissa))));
  Value subnormal = m.sub(fraction, m.number(format.leastNormal()));
  Value isNormal = m.atLeastBits(code, int64_t(1) << format.mantissa);
  return m.select(isNormal, normal, subnormal);
}

Value widen(const MathBuilder &m, const Format &format, Value byte) {
  Value bits = m.builder.create<arith::ExtUIOp>(m.loc, m.bitsType, byte);
  Value sign = m.andBits(bits, m.integer(codeSign));
  Value code = m.xorBits(bits, sign);
  Value number = widenNumber(m, format, code);
  Value signedBits = m.orBits(m.bits(number), m.shiftLeft(sign, codeSignShift));
  if (format.hasNoMinusZero) {
    Value isNan = m.builder.create<arith::CmpIOp>(
        m.loc, arith::CmpIPredicate::eq, bits, m.integer(codeSign));
    return m.select(isNan, m.nan(), m.fromBits(signedBits));
  }
  // The fraction of a special number tells infinity from NaN.
  Value special = m.orBits(signedBits, m.integer(infinityBits));
  return m.fromBits(m.select(m.atLeastBits(code, format.firstSpecial()),
                             special, signedBits));
}

/// The code nearest to the magnitude of a number, given as f32 bits. It is no
/// less than `firstSpecial` if the number is too large.
Value roundMagnitude(const MathBuilder &m, const Format &format,
                     Value magnitude) {
  // Half of the last place, or a little less if the place before is even.
  Value odd = m.andBits(m.shiftRight(magnitude, format.shift()), m.integer(1));
  Value half = m.integer((int64_t(1) << (format.shift() - 1)) - 1);
  Value rounded = m.addBits(magnitude, m.addBits(odd, half));
  Value normal = m.shiftRight(
      m.subBits(rounded, m.integer(format.exponentDistance())), format.shift());
  // A number whose last place is the smallest code rounds the sum to it.
  Value place = m.number(std::ldexp(format.leastNormal(), int(format.shift())));
  Value subnormal =
      m.subBits(m.bits(m.add(m.fromBits(magnitude), place)), m.bits(place));
  Value least = m.bits(m.number(format.leastNormal()));
  Value isNormal = m.builder.create<arith::CmpIOp>(
      m.loc, arith::CmpIPredicate::sge, magnitude, least);
  return m.select(isNormal, normal, subnormal);
}

/// Replaces a code that is too large, or that comes from NaN.
Value limit(const MathBuilder &m, const Format &format, Value magnitude,
            Value code) {
  Value isSpecial = m.atLeastBits(code, format.firstSpecial());
  if (format.hasNoMinusZero)
    return m.select(isSpecial, m.integer(format.firstSpecial()), code);
  constexpr int64_t infinity = 0x7c, largest = 0x7e, nan = 0x7f;
  Value special =
      m.select(m.atLeastBits(magnitude, infinityBits + 1), m.integer(nan),
               m.integer(format.hasInfinity ? infinity : largest));
  return m.select(isSpecial, special, code);
}

/// The bits of the nearest code, in integers of 32 bits.
Value roundToCode(const MathBuilder &m, const Format &format, Value number) {
  Value bits = m.bits(number);
  // All NaNs are one, so that rounding does not leave 31 bits.
  Value magnitude = m.builder.create<arith::MinSIOp>(
      m.loc, m.andBits(bits, m.integer(0x7fffffff)),
      m.integer(infinityBits + 1));
  Value sign =
      m.andBits(m.shiftRight(bits, codeSignShift), m.integer(codeSign));
  Value code =
      limit(m, format, magnitude, roundMagnitude(m, format, magnitude));
  Value withSign = m.orBits(code, sign);
  if (!format.hasNoMinusZero)
    return withSign;
  return m.select(m.atLeastBits(code, 1), withSign, code);
}

Value expand(Operation *op, const Format &format, const TargetInfo &target) {
  OpBuilder b(op);
  Location loc = op->getLoc();
  Value from = op->getOperand(0);
  Type result = op->getResult(0).getType();
  bool isWidening = isa<arith::ExtFOp>(op);
  MathBuilder m(b, loc, isWidening ? result : from.getType(), target);
  Type bytes = m.withElement(b.getI8Type());
  if (isWidening)
    return widen(m, format, b.create<arith::BitcastOp>(loc, bytes, from));
  Value code =
      b.create<arith::TruncIOp>(loc, bytes, roundToCode(m, format, from));
  return b.create<arith::BitcastOp>(loc, result, code);
}

/// The small format that an operation converts; none if it converts none.
std::optional<Format> convertedFormat(Operation *op) {
  if (isa<arith::ExtFOp>(op))
    return Format::of(getElementTypeOrSelf(op->getOperand(0).getType()));
  if (isa<arith::TruncFOp>(op))
    return Format::of(getElementTypeOrSelf(op->getResult(0).getType()));
  return std::nullopt;
}

} // namespace

void expandF8(ModuleOp module, const TargetInfo &target) {
  SmallVector<std::pair<Operation *, Format>> conversions;
  module.walk([&](Operation *op) {
    if (auto format = convertedFormat(op))
      conversions.emplace_back(op, *format);
  });
  for (auto [op, format] : conversions) {
    op->getResult(0).replaceAllUsesWith(expand(op, format, target));
    op->erase();
  }
}

} // namespace native
} // namespace anabranch
