//===- Powers.cpp - powers, logarithms of sums and their like -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Formula.h"
#include "import/lowering/OpTable.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

/// `x ** n` by squaring, for a constant n.
static Num constantPower(Num base, int64_t exponent) {
  Num result = base.constant(1);
  for (; exponent > 0; exponent /= 2, base = base * base)
    if (exponent % 2)
      result = result * base;
  return result;
}

/// `x ** n` by squaring, one step for each bit of n. For a negative n of an
/// integer power the result is zero, except for x = 1 and -1.
static Num integerPower(Num base, Num exponent) {
  Num zero = base.constant(0), one = base.constant(1);
  bool isSigned = !base.dtype.isUnsigned;
  unsigned bits = base.dtype.width() - isSigned;
  auto isSet = [&](unsigned bit) {
    return (exponent & base.constant(int64_t(1) << bit)) != zero;
  };
  Num result = one;
  for (unsigned bit = 0; bit < bits; ++bit) {
    if (bit > 0)
      base = base * base;
    result = s::select(isSet(bit), result * base, result);
  }
  return result;
}

static Num powerOfIntegers(Num base, Num exponent) {
  Num result = integerPower(base, exponent);
  if (base.dtype.isUnsigned)
    return result;
  Num zero = base.constant(0), one = base.constant(1);
  Num isOdd = (exponent & one) != zero;
  Num ofMinusOne = s::select(isOdd, base.constant(-1), one);
  Num inverse = s::select(
      base == one, one, s::select(base == base.constant(-1), ofMinusOne, zero));
  return s::select(exponent < zero, inverse, result);
}

/// The number whose root is `pow(x, 0.5)`, which knows no minus zero and no
/// root of minus infinity that is NaN. PyTorch takes `pow` for f16, and roots
/// for other floats.
static Num rootOf(Num x, DType dtype) {
  if (!dtype.type.isF16())
    return x;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return s::select((x == 0.0) | (x == -infinity), s::abs(x), x);
}

/// Exponents for which PyTorch has code of its own, with the same roundings.
static Num powerOfConstant(Num x, double exponent, DType dtype) {
  if (exponent == 0.5)
    return s::sqrt(rootOf(x, dtype));
  if (exponent == -0.5)
    return s::rsqrt(rootOf(x, dtype));
  if (exponent == 2)
    return x * x;
  if (exponent == 3)
    return x * x * x;
  if (exponent == -1)
    return s::reciprocal(x);
  if (exponent == -2)
    return s::reciprocal(x * x);
  if (exponent == 0)
    return x.constant(1);
  if (exponent == 1)
    return x;
  return s::pow(x, x.constant(exponent));
}

static Lowered lowerPow(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self"), exponent = b.operand("exponent");
  if (!self || !exponent)
    return b.refuse("operands are no tensors or numbers");
  DType dtype = b.resultDType();
  if (dtype.isBool())
    return b.refuse("PyTorch has no such kernel for bool");
  std::optional<double> constant = op.getFloatArg("exponent");
  std::optional<int64_t> integer = op.getIntArg("exponent");
  if (!dtype.isFloat() && integer && *integer < 0)
    return b.refuse("PyTorch takes no negative exponent of integers");
  auto formula = [&](Body &, Elements x) {
    if (dtype.isFloat())
      return constant ? powerOfConstant(x[0], *constant, dtype)
                      : s::pow(x[0], x[1]);
    return integer ? constantPower(x[0], *integer)
                   : powerOfIntegers(x[0], x[1]);
  };
  return lowered(
      b.elementwise({self, exponent}, dtype, dtype, b.resultSizes(), formula));
}

/// sqrt(a*a + b*b), in a type in which the squares cannot overflow. Infinite if
/// one is infinite, even beside NaN.
static Num hypotenuse(Elements x) {
  DType dtype = x[0].dtype;
  Num infinity = x[0].constant(INFINITY);
  Num a = s::abs(x[0]), b = s::abs(x[1]);
  Num isInfinite = (a == infinity) | (b == infinity);
  Num length = a;
  if (dtype.width() < 64) {
    DType wide = DType::f64(dtype.type.getContext());
    Num wideA = s::cast(a, wide), wideB = s::cast(b, wide);
    length = s::cast(s::sqrt(wideA * wideA + wideB * wideB), dtype);
  } else {
    Num large = s::maximum(a, b), small = s::minimum(a, b);
    Num ratio = small / s::select(large == 0.0, large.constant(1.0), large);
    length = large * s::sqrt(1.0 + ratio * ratio);
  }
  return s::select(isInfinite, infinity, length);
}

/// x * f(y): zero if x is zero, unless y is NaN.
static LoweringFn timesLog(Num (*log)(Num)) {
  return pointwise({"self", "other"}, [=](Elements x) {
    Num product = s::select(x[0] == 0.0, x[0].constant(0), x[0] * log(x[1]));
    return s::select(s::isNan(x[1]), x[1], product);
  });
}

void registerPowers(OpTable &table) {
  table.family("pointwise");
  table.add("pow.Tensor_Tensor", lowerPow, "P(3, 5), T(5); T(3, 5), T(5)");
  table.add("pow.Tensor_Scalar", lowerPow, "P(3, 5), 3; P(3, 5), 0.5");
  table.add("pow.Scalar", lowerPow, "1.5, T(3, 5); -3, T(3, 5)");
  table.add("atan2",
            pointwise({"self", "other"},
                      [](Elements x) { return s::atan2(x[0], x[1]); }),
            "T(3, 5), T(5)");
  LoweringFn copysign = pointwise(
      {"self", "other"}, [](Elements x) { return s::copysign(x[0], x[1]); });
  table.add("copysign.Tensor", copysign, "T(3, 5), T(5)");
  table.add("copysign.Scalar", copysign, "T(3, 5), -2");
  table.add("hypot", pointwise({"self", "other"}, hypotenuse), "T(3, 5), T(5)",
            Floats);
  table.add("logaddexp",
            pointwise({"self", "other"},
                      [](Elements x) { return s::logAddExp(x[0], x[1]); }),
            "T(3, 5), T(5)", Floats);
  table.add("logaddexp2",
            pointwise({"self", "other"},
                      [](Elements x) {
                        Num sum = s::logAddExp(x[0] * M_LN2, x[1] * M_LN2);
                        return sum * M_LOG2E;
                      }),
            "T(3, 5), T(5)", Floats);
  table.add("ldexp.Tensor",
            pointwise({"self", "other"},
                      [](Elements x) { return x[0] * s::exp2(x[1]); }),
            "T(3, 5), T(5); T(3, 5), I(5)");
  table.add("xlogy.Tensor", timesLog(s::log), "T(3, 5), P(5)");
  table.add("xlogy.Scalar_Other", timesLog(s::log), "T(3, 5), 2");
  table.add("xlogy.Scalar_Self", timesLog(s::log), "2, P(3, 5)");
  table.add("special_xlog1py", timesLog(s::log1p), "T(3, 5), P(5)");
}

} // namespace importer
} // namespace anabranch
