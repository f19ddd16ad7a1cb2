//===- DoubleMath.cpp - elementary functions computed in f64 --------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Functions that lose too much in f32, or would need several cases there. They
// use twice as many vectors, and round to f32 once, at the end.

#include "native/math/DoubleMath.h"

#include "native/math/MathCoefficients.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

constexpr double log2OfE = 0x1.71547652b82fep+0;
constexpr double ln2 = 0x1.62e42fefa39efp-1;

/// An f64 builder beside an f32 one, and the conversions between them.
class Doubles : public MathBuilder {
public:
  explicit Doubles(const MathBuilder &floats)
      : MathBuilder(floats.builder, floats.loc,
                    floats.withElement(floats.builder.getF64Type()),
                    floats.target),
        floatType(floats.type) {}

  Value in(Value x) const {
    return builder.create<arith::ExtFOp>(loc, type, x);
  }
  Value out(Value x) const {
    return builder.create<arith::TruncFOp>(loc, floatType, x);
  }

private:
  Type floatType;
};

/// 2^z for |z| <= 200, split as 2^n and 2^r - 1. A larger |z| is clamped.
std::pair<Value, Value> splitPower(const Doubles &d, Value z) {
  z = d.atMost(d.atLeast(z, d.number(-200)), d.number(200));
  auto [n, low] = d.roundToBits(z);
  Value r = d.sub(z, n);
  return {d.powerOfTwo(low),
          d.mul(r, d.polynomial(r, coefficients::exp2m1Double))};
}

Value exp2(const Doubles &d, Value z) {
  auto [power, p] = splitPower(d, z);
  return d.fma(power, p, power);
}

Value expMinus1(const Doubles &d, Value x) {
  auto [power, p] = splitPower(d, d.mul(x, d.number(log2OfE)));
  return d.fma(power, p, d.sub(power, d.number(1)));
}

/// log2 of any x that is no f64 subnormal.
Value log2(const Doubles &d, Value x) {
  Value root = d.integer(0x3fe6a09e667f3bcd); // bits of sqrt(1/2)
  Value one = d.integer(0x3ff0000000000000);
  Value moved = d.addBits(d.subBits(d.bits(x), root), one);
  // The biased exponent in the low bits of 2^52 is a number that needs no
  // conversion.
  Value exponent =
      d.xorBits(d.shiftRight(moved, 52), d.integer(0x4330000000000000));
  Value e = d.sub(d.fromBits(exponent), d.number(0x1p52 + 1023));
  Value fraction = d.andBits(moved, d.integer(0x000fffffffffffff));
  Value mantissa = d.fromBits(d.addBits(fraction, root));
  Value s = d.div(d.sub(mantissa, d.number(1)), d.add(mantissa, d.number(1)));
  Value p = d.polynomial(d.mul(s, s), coefficients::log2Double);
  Value result = d.fma(s, p, e);
  result = d.select(d.equal(x, d.infinity()), x, result);
  result = d.select(d.equal(x, d.number(0)), d.neg(d.infinity()), result);
  Value undefined = d.compare(MathBuilder::Predicate::ULT, x, d.number(0));
  return d.select(undefined, d.nan(), result);
}

Value log1Plus(const Doubles &d, Value t) {
  Value logarithm = d.mul(log2(d, d.add(t, d.number(1))), d.number(ln2));
  // Rounding 1 + t would lose digits of a small t.
  Value series = d.fma(d.mul(t, t), d.number(-0.5), t);
  return d.select(d.less(d.abs(t), d.number(0x1p-18)), series, logarithm);
}

Value buildTan(const MathBuilder &m, Value x) {
  Doubles d(m);
  Value wide = d.in(x);
  auto [n, low] = d.roundToBits(d.mul(wide, d.number(0x1.45f306dc9c883p-1)));
  Value r = d.fma(n, d.number(-0x1.921fb54442d18p+0), wide);
  r = d.fma(n, d.number(-0x1.1a62633145c07p-54), r);
  Value z = d.mul(r, r);
  Value sine = d.mul(r, d.polynomial(z, coefficients::sinDouble));
  Value cosine = d.polynomial(z, coefficients::cosDouble);
  Value odd = d.bitSet(low, 0);
  Value result =
      d.div(d.select(odd, d.neg(cosine), sine), d.select(odd, sine, cosine));
  return m.select(m.equal(x, m.number(0)), x, d.out(result));
}

Value buildSinh(const MathBuilder &m, Value x) {
  Doubles d(m);
  Value e = expMinus1(d, d.in(m.abs(x)));
  Value sum = d.add(e, d.div(e, d.add(e, d.number(1))));
  return m.copySign(d.out(d.mul(sum, d.number(0.5))), x);
}

Value buildCosh(const MathBuilder &m, Value x) {
  Doubles d(m);
  Value e = exp2(d, d.mul(d.in(m.abs(x)), d.number(log2OfE)));
  Value sum = d.add(e, d.div(d.number(1), e));
  return d.out(d.mul(sum, d.number(0.5)));
}

Value buildAsinh(const MathBuilder &m, Value x) {
  Doubles d(m);
  Value a = d.in(m.abs(x)), square = d.mul(a, a);
  Value root = d.sqrt(d.add(square, d.number(1)));
  Value t = d.add(a, d.div(square, d.add(root, d.number(1))));
  Value result = d.out(log1Plus(d, t));
  result = m.select(m.equal(m.abs(x), m.infinity()), m.abs(x), result);
  return m.copySign(result, x);
}

Value buildAcosh(const MathBuilder &m, Value x) {
  Doubles d(m);
  Value t = d.sub(d.in(x), d.number(1));
  Value root = d.sqrt(d.mul(t, d.add(t, d.number(2))));
  Value result = d.out(log1Plus(d, d.add(t, root)));
  return m.select(m.less(x, m.number(1)), m.nan(), result);
}

Value buildAtanh(const MathBuilder &m, Value x) {
  Doubles d(m);
  Value a = d.in(m.abs(x));
  Value t = d.div(d.add(a, a), d.sub(d.number(1), a));
  Value result = d.mul(log1Plus(d, t), d.number(0.5));
  return m.copySign(d.out(result), x);
}

Value buildLog1p(const MathBuilder &m, Value x) {
  Doubles d(m);
  return m.select(m.equal(x, m.number(0)), x, d.out(log1Plus(d, d.in(x))));
}

Value buildCbrt(const MathBuilder &m, Value x) {
  Doubles d(m);
  Value third = d.mul(log2(d, d.in(m.abs(x))), d.number(1.0 / 3));
  Value result = d.out(exp2(d, third));
  result = m.select(m.equal(m.abs(x), m.infinity()), m.abs(x), result);
  return m.copySign(result, x);
}

// The special cases are those of C: pow(x, 0) and pow(1, y) are 1 even for NaN.
// A negative x needs an integral y, whose parity gives the sign.
Value buildPow(const MathBuilder &m, Value x, Value y) {
  Doubles d(m);
  Value a = m.abs(x), one = m.number(1), zero = m.number(0);
  Value product = d.mul(log2(d, d.in(a)), d.in(y));
  Value isOne = m.equal(a, one);
  Value exponentInfinite = m.equal(m.abs(y), m.infinity());
  Value result = d.out(exp2(d, product));
  result = m.select(m.both(isOne, exponentInfinite), one, result);

  Value half = m.mul(y, m.number(0.5));
  Value isIntegral = m.equal(m.round(y), y);
  Value isOdd = m.both(
      isIntegral, m.compare(MathBuilder::Predicate::ONE, m.round(half), half));
  Value signBit = m.bitSet(m.bits(x), 31);
  result = m.select(m.both(signBit, isOdd), m.neg(result), result);

  Value finiteNegative = m.both(m.less(x, zero), m.less(a, m.infinity()));
  Value undefined = m.both(finiteNegative, m.negate(isIntegral));
  result = m.select(undefined, m.nan(), result);
  Value isUnit = m.either(m.equal(x, one), m.equal(y, zero));
  return m.select(isUnit, one, result);
}

constexpr MathFormula doubleRows[] = {
    {"tan", "tan", MathFormula::Limited, buildTan},
    {"sinh", "sinh", MathFormula::Outlined, buildSinh},
    {"cosh", "cosh", MathFormula::Outlined, buildCosh},
    {"asinh", "asinh", MathFormula::Outlined, buildAsinh},
    {"acosh", "acosh", MathFormula::Outlined, buildAcosh},
    {"atanh", "atanh", MathFormula::Outlined, buildAtanh},
    {"log1p", "log1p", MathFormula::Outlined, buildLog1p},
    {"cbrt", "cbrt", MathFormula::Outlined, buildCbrt},
    {"powf", "pow", MathFormula::Outlined, nullptr, buildPow},
};

} // namespace

ArrayRef<MathFormula> doubleFormulas() { return doubleRows; }

} // namespace native
} // namespace anabranch
