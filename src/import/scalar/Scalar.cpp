//===- Scalar.cpp - arithmetic on one element, as PyTorch does it ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/scalar/Scalar.h"

#include "anabranch/KernelABI.h"
#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

static Num with(Num like, Value value) {
  return {like.body, value, like.dtype};
}

static Num boolean(Num like, Value value) {
  return {like.body, value, DType::boolean(value.getContext())};
}

Num Num::constant(double number) const {
  return s::constant(*body, dtype, number);
}
Num Num::constant(int64_t number) const {
  return s::constant(*body, dtype, number);
}

//===----------------------------------------------------------------------===//
// Constants and conversions
//===----------------------------------------------------------------------===//

Num s::constant(Body &body, DType dtype, double number) {
  if (!dtype.isFloat())
    return constant(body, dtype, static_cast<int64_t>(number));
  Value value = body.create<arith::ConstantOp>(
      body.builder.getFloatAttr(dtype.type, number));
  return {&body, value, dtype};
}

Num s::constant(Body &body, DType dtype, int64_t number) {
  if (dtype.isFloat())
    return constant(body, dtype, static_cast<double>(number));
  APInt bits(64, static_cast<uint64_t>(number));
  if (dtype.isBool())
    bits = APInt(64, number != 0);
  Value value = body.create<arith::ConstantOp>(
      IntegerAttr::get(dtype.type, bits.trunc(dtype.width())));
  return {&body, value, dtype};
}

/// Converts between floats. A float of eight or 16 bits comes from and becomes
/// another one through f32, as in PyTorch.
static Num castFloat(Num x, DType to) {
  Body &body = *x.body;
  bool narrow = to.width() <= 16;
  if ((narrow && x.dtype.width() != 32) ||
      (x.dtype.isSmallFloat() && to.width() != 32))
    x = s::cast(x, DType::f32(to.type.getContext()));
  Value value = to.width() > x.dtype.width()
                    ? body.create<arith::ExtFOp>(to.type, x.value)
                    : body.create<arith::TruncFOp>(to.type, x.value);
  return {&body, value, to};
}

/// Converts to a narrow integer through a wider one, so that values out of
/// range wrap as in PyTorch.
static Num castFloatToInt(Num x, DType to) {
  Body &body = *x.body;
  x = s::cast(x, x.dtype.math());
  unsigned width = to.width() < 32 ? 32 : to.width();
  Type wide = body.builder.getIntegerType(width);
  Value value = body.create<arith::FPToSIOp>(wide, x.value);
  if (width != to.width())
    value = body.create<arith::TruncIOp>(to.type, value);
  return {&body, value, to};
}

static Num castIntToFloat(Num x, DType to) {
  Body &body = *x.body;
  DType math = to.math();
  bool zeroExtend = x.dtype.isUnsigned || x.dtype.isBool();
  Value value = zeroExtend ? body.create<arith::UIToFPOp>(math.type, x.value)
                           : body.create<arith::SIToFPOp>(math.type, x.value);
  return s::cast({&body, value, math}, to);
}

static Num castInt(Num x, DType to) {
  Body &body = *x.body;
  Value value = x.value;
  bool zeroExtend = x.dtype.isUnsigned || x.dtype.isBool();
  if (to.width() < x.dtype.width())
    value = body.create<arith::TruncIOp>(to.type, value);
  else if (to.width() > x.dtype.width() && zeroExtend)
    value = body.create<arith::ExtUIOp>(to.type, value);
  else if (to.width() > x.dtype.width())
    value = body.create<arith::ExtSIOp>(to.type, value);
  return {&body, value, to};
}

Num s::cast(Num x, DType to) {
  if (x.dtype.type == to.type)
    return {x.body, x.value, to};
  if (to.isBool() && x.dtype.isSmallFloat())
    return s::cast(s::cast(x, x.dtype.math()), to);
  if (to.isBool())
    return x != x.constant(0);
  if (x.dtype.isFloat())
    return to.isFloat() ? castFloat(x, to) : castFloatToInt(x, to);
  return to.isFloat() ? castIntToFloat(x, to) : castInt(x, to);
}

Num s::index(Body &body, int64_t dim) {
  Value position = body.builder.create<linalg::IndexOp>(body.loc, dim);
  return fromIndex(body, position,
                   DType::integer(body.builder.getContext(), 64));
}

Num s::fromIndex(Body &body, Value index, DType dtype) {
  DType wide = DType::integer(body.builder.getContext(), 64);
  Value value = body.create<arith::IndexCastOp>(wide.type, index);
  return cast({&body, value, wide}, dtype);
}

Num s::fromBits(Body &body, Value index) {
  MLIRContext *context = body.builder.getContext();
  Num word = fromIndex(body, index, DType::integer(context, 64));
  DType f64 = DType::f64(context);
  return {&body, body.create<arith::BitcastOp>(f64.type, word.value), f64};
}

Value s::toIndex(Num x) {
  Num wide = cast(x, DType::integer(x.value.getContext(), 64));
  return x.body->create<arith::IndexCastOp>(x.body->builder.getIndexType(),
                                            wide.value);
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// Emits the operation for the operands' dtype.
template <typename FloatOp, typename IntOp> static Num binary(Num a, Num b) {
  assert(a.dtype.type == b.dtype.type && "operands of different dtypes");
  Body &body = *a.body;
  return with(a, a.dtype.isFloat() ? body.create<FloatOp>(a.value, b.value)
                                   : body.create<IntOp>(a.value, b.value));
}

Num operator+(Num a, Num b) {
  return a.dtype.isBool() ? a | b : binary<arith::AddFOp, arith::AddIOp>(a, b);
}
Num operator-(Num a, Num b) {
  return a.dtype.isBool() ? a ^ b : binary<arith::SubFOp, arith::SubIOp>(a, b);
}
Num operator*(Num a, Num b) {
  return a.dtype.isBool() ? a & b : binary<arith::MulFOp, arith::MulIOp>(a, b);
}
Num operator/(Num a, Num b) {
  return a.dtype.isUnsigned ? binary<arith::DivFOp, arith::DivUIOp>(a, b)
                            : binary<arith::DivFOp, arith::DivSIOp>(a, b);
}
Num operator-(Num a) {
  if (a.dtype.isFloat())
    return with(a, a.body->create<arith::NegFOp>(a.value));
  return a.constant(0) - a;
}
Num operator&(Num a, Num b) {
  return with(a, a.body->create<arith::AndIOp>(a.value, b.value));
}
Num operator|(Num a, Num b) {
  return with(a, a.body->create<arith::OrIOp>(a.value, b.value));
}
Num operator^(Num a, Num b) {
  return with(a, a.body->create<arith::XOrIOp>(a.value, b.value));
}
Num operator!(Num a) {
  Num ones = s::constant(*a.body, a.dtype, int64_t(-1));
  return a ^ ones;
}

static Num compare(Num a, Num b, arith::CmpFPredicate ofFloats,
                   arith::CmpIPredicate ofSigned,
                   arith::CmpIPredicate ofUnsigned) {
  assert(a.dtype.type == b.dtype.type && "operands of different dtypes");
  Body &body = *a.body;
  if (a.dtype.isFloat())
    return boolean(a, body.create<arith::CmpFOp>(ofFloats, a.value, b.value));
  bool isUnsigned = a.dtype.isUnsigned || a.dtype.isBool();
  return boolean(a, body.create<arith::CmpIOp>(
                        isUnsigned ? ofUnsigned : ofSigned, a.value, b.value));
}

Num operator<(Num a, Num b) {
  return compare(a, b, arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt,
                 arith::CmpIPredicate::ult);
}
Num operator<=(Num a, Num b) {
  return compare(a, b, arith::CmpFPredicate::OLE, arith::CmpIPredicate::sle,
                 arith::CmpIPredicate::ule);
}
Num operator>(Num a, Num b) { return b < a; }
Num operator>=(Num a, Num b) { return b <= a; }
Num operator==(Num a, Num b) {
  return compare(a, b, arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq,
                 arith::CmpIPredicate::eq);
}
Num operator!=(Num a, Num b) {
  return compare(a, b, arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne,
                 arith::CmpIPredicate::ne);
}

//===----------------------------------------------------------------------===//
// Selection, extremes, division
//===----------------------------------------------------------------------===//

Num s::select(Num condition, Num a, Num b) {
  return with(
      a, a.body->create<arith::SelectOp>(condition.value, a.value, b.value));
}

Num s::maximum(Num a, Num b) {
  if (a.dtype.isUnsigned || a.dtype.isBool())
    return binary<arith::MaximumFOp, arith::MaxUIOp>(a, b);
  return binary<arith::MaximumFOp, arith::MaxSIOp>(a, b);
}

Num s::minimum(Num a, Num b) {
  if (a.dtype.isUnsigned || a.dtype.isBool())
    return binary<arith::MinimumFOp, arith::MinUIOp>(a, b);
  return binary<arith::MinimumFOp, arith::MinSIOp>(a, b);
}

Num s::fmax(Num a, Num b) {
  return a.dtype.isFloat() ? binary<arith::MaxNumFOp, arith::MaxSIOp>(a, b)
                           : maximum(a, b);
}

Num s::fmin(Num a, Num b) {
  return a.dtype.isFloat() ? binary<arith::MinNumFOp, arith::MinSIOp>(a, b)
                           : minimum(a, b);
}

Num s::isNan(Num x) {
  if (!x.dtype.isFloat())
    return constant(*x.body, DType::boolean(x.value.getContext()), int64_t(0));
  return boolean(x, x.body->create<arith::CmpFOp>(arith::CmpFPredicate::UNO,
                                                  x.value, x.value));
}

Num s::abs(Num x) {
  if (x.dtype.isFloat())
    return with(x, x.body->create<math::AbsFOp>(x.value));
  if (x.dtype.isUnsigned || x.dtype.isBool())
    return x;
  return maximum(x, -x);
}

Num s::sign(Num x) {
  if (x.dtype.isBool())
    return x;
  Num zero = x.constant(0);
  return cast(zero < x, x.dtype) - cast(x < zero, x.dtype);
}

Num s::reciprocal(Num x) { return 1.0 / x; }

/// Sets a kernel status unless the condition holds.
static void check(Num condition, int32_t status) {
  OpBuilder &builder = condition.body->builder;
  builder.create<ir::CheckOp>(condition.body->loc, condition.value,
                              builder.getI32IntegerAttr(status));
}

void s::checkIndex(Num condition) {
  check(condition, ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE);
}

Num s::guardedDivisor(Num divisor) {
  Num valid = divisor != divisor.constant(0);
  check(valid, ANABRANCH_KERNEL_DIVISION_BY_ZERO);
  return select(valid, divisor, divisor.constant(1));
}

/// The truncated quotient of integers. INT_MIN / -1 wraps instead of trapping.
Num s::truncatedQuotient(Num a, Num b) {
  if (a.dtype.isUnsigned)
    return a / b;
  Num minusOne = b.constant(-1);
  Num isMinusOne = b == minusOne;
  Num plain = a / s::select(isMinusOne, b.constant(1), b);
  return s::select(isMinusOne, -a, plain);
}

Num s::truncatedRemainder(Num a, Num b) {
  if (a.dtype.isFloat())
    return with(a, a.body->create<arith::RemFOp>(a.value, b.value));
  b = guardedDivisor(b);
  return a - truncatedQuotient(a, b) * b;
}

Num s::remainder(Num a, Num b) {
  Num rest = truncatedRemainder(a, b);
  if (a.dtype.isUnsigned)
    return rest;
  Num zero = a.constant(0);
  Num adjust = (rest != zero) & ((rest < zero) ^ (b < zero));
  return select(adjust, rest + b, rest);
}

/// PyTorch's div_floor for floats, which follows Python: it is derived from
/// fmod, so that floor_divide and remainder agree.
static Num floorDivideFloats(Num a, Num b) {
  Num zero = a.constant(0);
  Num mod = s::truncatedRemainder(a, b);
  Num div = (a - mod) / b;
  Num adjust = (mod != zero) & ((b < zero) ^ (mod < zero));
  div = s::select(adjust, div - 1.0, div);
  Num floored = s::floor(div);
  floored = s::select(floored < div - 0.5, floored + 1.0, floored);
  Num quotient = a / b;
  Num result = s::select(div != zero, floored, s::copysign(zero, quotient));
  return s::select(b == zero, quotient, result);
}

Num s::floorDivide(Num a, Num b) {
  if (a.dtype.isFloat())
    return floorDivideFloats(a, b);
  b = guardedDivisor(b);
  Num result = truncatedQuotient(a, b);
  if (a.dtype.isUnsigned)
    return result;
  Num zero = a.constant(0);
  Num rest = a - result * b;
  Num adjust = (rest != zero) & ((rest < zero) ^ (b < zero));
  return select(adjust, result - a.constant(1), result);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

template <typename OpT> static Num unary(Num x) {
  return with(x, x.body->create<OpT>(x.value));
}

#define ANABRANCH_MATH_FUNCTION(NAME, OPERATION, SAMPLES)                      \
  Num s::NAME(Num x) { return unary<math::OPERATION>(x); }
#include "import/scalar/MathFunctions.def"

/// Rounding does not change integers.
template <typename OpT> static Num rounding(Num x) {
  return x.dtype.isFloat() ? unary<OpT>(x) : x;
}
Num s::floor(Num x) { return rounding<math::FloorOp>(x); }
Num s::ceil(Num x) { return rounding<math::CeilOp>(x); }
Num s::trunc(Num x) { return rounding<math::TruncOp>(x); }
Num s::byteDot(Num sum, Num word, ArrayRef<Num> bytes, bool unsignedWord) {
  auto values = llvm::map_to_vector(bytes, [](Num x) { return x.value; });
  Value value = sum.body->create<ir::ByteDotOp>(
      sum.value, word.value, ValueRange(values), unsignedWord);
  return {sum.body, value, sum.dtype};
}

Num s::roundeven(Num x) { return rounding<math::RoundEvenOp>(x); }

Num s::sigmoid(Num x) { return 1.0 / (1.0 + exp(-x)); }

Num s::atan2(Num a, Num b) {
  return with(a, a.body->create<math::Atan2Op>(a.value, b.value));
}
Num s::pow(Num a, Num b) {
  return with(a, a.body->create<math::PowFOp>(a.value, b.value));
}
Num s::copysign(Num a, Num b) {
  return with(a, a.body->create<math::CopySignOp>(a.value, b.value));
}

Num s::multiplyAdd(Num a, Num b, Num c) {
  if (!a.dtype.isFloat())
    return a * b + c;
  return with(a, a.body->create<math::FmaOp>(a.value, b.value, c.value));
}

Num s::logAddExp(Num a, Num b) {
  Num sum = maximum(a, b) + log1p(exp(-abs(a - b)));
  Num sameInfinity =
      (a == b) &
      (abs(a) == a.constant(std::numeric_limits<double>::infinity()));
  return select(sameInfinity, a, sum);
}

} // namespace importer
} // namespace anabranch
