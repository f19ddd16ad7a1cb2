//===- FloatMath.cpp - elementary functions computed in f32 ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/math/FloatMath.h"

#include "native/math/MathCoefficients.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

// Constants in two parts, high and low. Their sum has twice the precision of a
// float.
constexpr double log2E = 0x1.715476p+0;
constexpr double ln2High = 0x1.62e4p-1, ln2Low = 0x1.7f7d1cp-20;
constexpr double halfPiHigh = 0x1.921fb6p+0, halfPiLow = -0x1.777a5cp-25;
constexpr double halfPiLowest = -0x1.ee59dap-50;

/// 2 / sqrt(pi) as a float.
constexpr double erfSlope = 0x1.20dd76p+0;

/// value * 2^n for |n| < 254, gradual underflow included.
Value scale(const MathBuilder &m, Value value, const MathBuilder::Rounded &n) {
  if (m.hasScale())
    return m.scale(value, n.number);
  // Two steps keep the factors normal.
  Value integer = m.subBits(n.low, m.bits(m.number(0x1.8p23)));
  Value half = m.shiftRightSigned(integer, 1);
  Value first = m.mul(value, m.powerOfTwo(half));
  return m.mul(first, m.powerOfTwo(m.subBits(integer, half)));
}

/// x as n log(2) + r, as n and e^r - 1, for |x| below 2^22.
struct SplitExponential {
  MathBuilder::Rounded n;
  Value p;
};
SplitExponential splitExponential(const MathBuilder &m, Value x) {
  MathBuilder::Rounded n = m.roundToBits(m.mul(x, m.number(log2E)));
  Value r = m.fma(n.number, m.number(-ln2High), x);
  r = m.fma(n.number, m.number(-ln2Low), r);
  Value tail = m.polynomial(r, coefficients::expm1Tail);
  return {n, m.fma(m.mul(r, r), tail, r)};
}

/// e^x - 1 for -87 < x < 88.
Value expMinus1(const MathBuilder &m, Value x) {
  auto [n, p] = splitExponential(m, x);
  Value power = m.powerOfTwo(n.low);
  return m.fma(power, p, m.sub(power, m.number(1)));
}

/// Splits x > 0 into 2^e (1 + f), f from sqrt(1/2) - 1 to sqrt(2) - 1.
std::pair<Value, Value> splitExponent(const MathBuilder &m, Value x) {
  Value isSubnormal = m.less(x, m.number(0x1p-126));
  Value normal = m.select(isSubnormal, m.mul(x, m.number(0x1p23)), x);
  Value root = m.integer(0x3f3504f3); // bits of sqrt(1/2)
  Value moved = m.subBits(m.bits(normal), root);
  Value e = m.toFloat(m.shiftRightSigned(moved, 23));
  e = m.select(isSubnormal, m.sub(e, m.number(23)), e);
  Value mantissa =
      m.fromBits(m.addBits(m.andBits(moved, m.integer(0x7fffff)), root));
  return {e, m.sub(mantissa, m.number(1))};
}

/// Replaces the result of a logarithm for arguments outside of (0, inf).
Value logSpecial(const MathBuilder &m, Value x, Value result) {
  result = m.select(m.equal(x, m.infinity()), x, result);
  result = m.select(m.equal(x, m.number(0)), m.neg(m.infinity()), result);
  Value undefined = m.compare(MathBuilder::Predicate::ULT, x, m.number(0));
  return m.select(undefined, m.nan(), result);
}

/// log(x) * scale. `scale` and its product with log(2) come in two parts.
Value logOfBase(const MathBuilder &m, Value x, double scaleHigh,
                double scaleLow, double twoHigh, double twoLow) {
  auto [e, f] = splitExponent(m, x);
  Value tail = m.mul(m.mul(f, f), m.polynomial(f, coefficients::logTail));
  Value c = m.number(scaleHigh);
  Value high = m.mul(f, c);
  Value low = m.fma(f, c, m.neg(high));
  low = m.fma(f, m.number(scaleLow), low);
  low = m.fma(e, m.number(twoLow), low);
  low = m.fma(tail, c, low);
  Value sum = m.add(high, low);
  return logSpecial(m, x, m.fma(e, m.number(twoHigh), sum));
}

/// asin of s on [0, 1/2], with z = s^2.
Value asinCore(const MathBuilder &m, Value s, Value z) {
  return m.fma(m.mul(s, z), m.polynomial(z, coefficients::asinTail), s);
}

/// For an `a` from 0 to 1: asin(a) or, if `a` is above 1/2, half of pi/2 -
/// asin(a).
struct ArcSine {
  Value isLarge, core;
};
ArcSine arcSine(const MathBuilder &m, Value a) {
  Value isLarge = m.less(m.number(0.5), a);
  Value reduced = m.mul(m.sub(m.number(1), a), m.number(0.5));
  Value z = m.select(isLarge, reduced, m.mul(a, a));
  return {isLarge, asinCore(m, m.select(isLarge, m.sqrt(reduced), a), z)};
}

/// atan on [-1, 1].
Value atanCore(const MathBuilder &m, Value t) {
  Value z = m.mul(t, t);
  return m.fma(m.mul(t, z), m.polynomial(z, coefficients::atanTail), t);
}

/// pi/2 * quarter - a, with pi in two parts.
Value fromHalfPi(const MathBuilder &m, double quarters, Value a) {
  Value high = m.sub(m.number(halfPiHigh * quarters), a);
  return m.add(high, m.number(halfPiLow * quarters));
}

/// sin(x + quarters * pi/2).
Value sinShifted(const MathBuilder &m, Value x, int64_t quarters) {
  auto [n, low] = m.roundToBits(m.mul(x, m.number(0x1.45f306p-1)));
  Value r = m.fma(n, m.number(-halfPiHigh), x);
  r = m.fma(n, m.number(-halfPiLow), r);
  r = m.fma(n, m.number(-halfPiLowest), r);
  Value z = m.mul(r, r);
  Value sine = m.fma(m.mul(r, z), m.polynomial(z, coefficients::sinTail), r);
  Value cosine = m.fma(z, m.number(-0.5), m.number(1));
  cosine = m.fma(m.mul(z, z), m.polynomial(z, coefficients::cosTail), cosine);
  Value quadrant = m.addBits(low, m.integer(quarters));
  Value result = m.select(m.bitSet(quadrant, 0), cosine, sine);
  Value sign = m.shiftLeft(m.andBits(quadrant, m.integer(2)), 30);
  return m.fromBits(m.xorBits(m.bits(result), sign));
}

/// `x`, but at least the number below which a power is zero. Processors scale
/// slowly to results that are nearly or hardly subnormal. They scale fast to a
/// zero far below, which minus infinity gives.
Value atLeastZeroPower(const MathBuilder &m, Value x, double smallest) {
  return m.atLeast(x, m.number(m.hasScale() ? 16 * smallest : smallest));
}

Value buildExp(const MathBuilder &m, Value x) {
  Value clamped = m.atMost(atLeastZeroPower(m, x, -105), m.number(89));
  MathBuilder::Rounded n = m.roundToBits(clamped, log2E);
  Value r = m.fma(n.number, m.number(-ln2High), clamped);
  r = m.fma(n.number, m.number(-ln2Low), r);
  // Nothing cancels in e^r, so no term is kept apart.
  Value slope = m.fma(m.polynomial(r, coefficients::expm1Tail), r, m.number(1));
  return scale(m, m.fma(slope, r, m.number(1)), n);
}

Value buildExp2(const MathBuilder &m, Value x) {
  Value clamped = m.atMost(atLeastZeroPower(m, x, -151), m.number(129));
  MathBuilder::Rounded n = m.roundToBits(clamped);
  Value r = m.sub(clamped, n.number);
  Value p = m.fma(r, m.polynomial(r, coefficients::exp2m1), m.number(1));
  return scale(m, p, n);
}

Value buildExpm1(const MathBuilder &m, Value x) {
  Value clamped = m.atMost(m.atLeast(x, m.number(-18)), m.number(89));
  auto [n, p] = splitExponential(m, clamped);
  // 2^128 is no float, so the result is doubled at the end.
  Value half = m.powerOfTwo(m.subBits(n.low, m.integer(1)));
  Value result = m.fma(half, p, m.sub(half, m.number(0.5)));
  result = m.add(result, result);
  return m.select(m.equal(x, m.number(0)), x, result);
}

/// A polynomial for each quarter of an octave from 2^-4 to 9. Above 9 the
/// result is one; below 2^-4 it is an odd polynomial.
Value tanhByTable(const MathBuilder &m, Value x) {
  Value a = m.atMost(m.abs(x), m.number(9.01));
  Value index = m.shiftRight(m.bits(m.atLeast(a, m.number(0x1.ep-5))), 21);
  Value t = m.sub(a, m.lookup(coefficients::tanhCenters, index));
  return m.copySign(m.polynomial(t, coefficients::tanhTable, index), x);
}

// tanh |x| = 1 - 2 / (exp(2 |x|) + 1) where this cancels nothing.
Value buildTanh(const MathBuilder &m, Value x) {
  if (m.hasLookup())
    return tanhByTable(m, x);
  Value a = m.abs(x), z = m.mul(x, x);
  Value small = m.fma(m.mul(a, z), m.polynomial(z, coefficients::tanhTail), a);
  auto [n, p] = splitExponential(m, m.atMost(m.add(a, a), m.number(20)));
  Value power = m.powerOfTwo(n.low);
  Value sum = m.fma(power, p, m.add(power, m.number(1)));
  Value large = m.sub(m.number(1), m.div(m.number(2), sum));
  return m.copySign(m.select(m.less(a, m.number(0.5625)), small, large), x);
}

/// A polynomial around each multiple of 1/4; the one around zero is odd. Above
/// 3.875 the result is one.
Value erfByTable(const MathBuilder &m, Value x) {
  Value magnitude = m.abs(x), last = m.number(0x1.effffep+1);
  Value a = m.atMost(magnitude, last);
  MathBuilder::Rounded n = m.roundToBits(a, 4);
  Value t = m.fma(n.number, m.number(-0.25), a);
  Value result = m.polynomial(t, coefficients::erfTable, n.low);
  // The slope at zero comes in two parts.
  Value small = m.fma(t, m.number(erfSlope), result);
  Value isSmall = m.equal(n.number, m.number(0));
  result = m.select(isSmall, small, result);
  result = m.select(m.less(last, magnitude), m.number(1), result);
  return m.copySign(result, x);
}

// erf |x| = 1 - exp(|x| q(|x|)) with a polynomial q: relative errors stay small
// near zero, and errors of q vanish with the tail. The first coefficient of q
// comes in two parts.
Value buildErf(const MathBuilder &m, Value x) {
  if (m.hasLookup())
    return erfByTable(m, x);
  Value a = m.atMost(m.abs(x), m.number(3.95));
  Value rest = m.mul(a, m.polynomial(a, coefficients::erfExponent));
  Value z = m.fma(a, m.number(-erfSlope), rest);
  return m.copySign(expMinus1(m, z), x);
}

Value buildLog(const MathBuilder &m, Value x) {
  auto [e, f] = splitExponent(m, x);
  Value tail = m.polynomial(f, coefficients::logTail);
  Value low = m.fma(m.mul(f, f), tail, m.mul(e, m.number(ln2Low)));
  Value result = m.fma(e, m.number(ln2High), m.add(f, low));
  return logSpecial(m, x, result);
}

Value buildLog2(const MathBuilder &m, Value x) {
  return logOfBase(m, x, log2E, 0x1.4ae0cp-26, 1, 0);
}

Value buildLog10(const MathBuilder &m, Value x) {
  return logOfBase(m, x, 0x1.bcb7b2p-2, -0x1.5b235ep-27, 0x1.344p-2,
                   0x1.3509f8p-18);
}

Value buildAsin(const MathBuilder &m, Value x) {
  Value a = m.abs(x);
  auto [isLarge, core] = arcSine(m, a);
  Value large = fromHalfPi(m, 1, m.add(core, core));
  Value outside = m.less(m.number(1), a);
  Value result = m.select(isLarge, large, core);
  return m.copySign(m.select(outside, m.nan(), result), x);
}

Value buildAcos(const MathBuilder &m, Value x) {
  Value a = m.abs(x);
  auto [isLarge, core] = arcSine(m, a);
  Value twice = m.add(core, core);
  Value large =
      m.select(m.less(x, m.number(0)), fromHalfPi(m, 2, twice), twice);
  Value small = fromHalfPi(m, 1, m.copySign(core, x));
  Value outside = m.less(m.number(1), a);
  return m.select(outside, m.nan(), m.select(isLarge, large, small));
}

Value buildAtan(const MathBuilder &m, Value x) {
  Value a = m.abs(x);
  Value isLarge = m.less(m.number(1), a);
  Value t = m.select(isLarge, m.div(m.number(1), a), a);
  Value core = atanCore(m, t);
  return m.copySign(m.select(isLarge, fromHalfPi(m, 1, core), core), x);
}

Value buildAtan2(const MathBuilder &m, Value y, Value x) {
  Value ay = m.abs(y), ax = m.abs(x);
  Value steep = m.less(ax, ay);
  Value large = m.select(steep, ay, ax), small = m.select(steep, ax, ay);
  Value t = m.div(small, large);
  t = m.select(m.equal(large, m.number(0)), m.number(0), t);
  t = m.select(m.equal(small, m.infinity()), m.number(1), t);
  Value core = atanCore(m, t);
  Value result = m.select(steep, fromHalfPi(m, 1, core), core);
  Value negative = m.bitSet(m.bits(x), 31);
  result = m.select(negative, fromHalfPi(m, 2, result), result);
  Value unordered = m.compare(MathBuilder::Predicate::UNO, x, y);
  return m.select(unordered, m.nan(), m.copySign(result, y));
}

Value buildRsqrt(const MathBuilder &m, Value x) {
  return m.div(m.number(1), m.sqrt(x));
}

Value buildRound(const MathBuilder &m, Value x) {
  // The largest number below one half: one half itself would round up numbers
  // just below it.
  Value below = m.number(m.isDouble() ? 0x1.fffffffffffffp-2 : 0x1.fffffep-2);
  return m.trunc(m.add(x, m.copySign(below, x)));
}

Value buildSin(const MathBuilder &m, Value x) {
  return m.select(m.equal(x, m.number(0)), x, sinShifted(m, x, 0));
}

Value buildCos(const MathBuilder &m, Value x) { return sinShifted(m, x, 1); }

constexpr MathFormula floatRows[] = {
    {"exp", "exp", MathFormula::Inline, buildExp},
    {"exp2", "exp2", MathFormula::Inline, buildExp2},
    {"expm1", "expm1", MathFormula::Inline, buildExpm1},
    {"tanh", "tanh", MathFormula::Inline, buildTanh},
    {"erf", "erf", MathFormula::Inline, buildErf},
    {"log", "log", MathFormula::Inline, buildLog},
    {"log2", "log2", MathFormula::Inline, buildLog2},
    {"log10", "log10", MathFormula::Inline, buildLog10},
    {"sin", "sin", MathFormula::Limited, buildSin},
    {"cos", "cos", MathFormula::Limited, buildCos},
    {"asin", "asin", MathFormula::Outlined, buildAsin},
    {"acos", "acos", MathFormula::Outlined, buildAcos},
    {"atan", "atan", MathFormula::Outlined, buildAtan},
    {"rsqrt", nullptr, MathFormula::Inline, buildRsqrt},
    {"round", nullptr, MathFormula::Inline, buildRound},
    {"atan2", "atan2", MathFormula::Outlined, nullptr, buildAtan2},
};

} // namespace

ArrayRef<MathFormula> floatFormulas() { return floatRows; }

} // namespace native
} // namespace anabranch
