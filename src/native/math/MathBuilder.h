//===- MathBuilder.h - arithmetic on floats of one shape --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Shorthand to write an approximation as a formula. All values have one type, a
// float scalar or a vector of floats, or are integers of the same width and
// shape that hold its bits.

#ifndef ANABRANCH_NATIVE_MATH_MATHBUILDER_H
#define ANABRANCH_NATIVE_MATH_MATHBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "native/target/Target.h"

#include <limits>

namespace anabranch {
namespace native {

class MathBuilder {
public:
  using Value = mlir::Value;

  MathBuilder(mlir::OpBuilder &builder, mlir::Location loc, mlir::Type type,
              const TargetInfo &target)
      : builder(builder), loc(loc), type(type), target(target),
        bitsType(withElement(builder.getIntegerType(
            mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth()))) {}

  mlir::OpBuilder &builder;
  const mlir::Location loc;
  const mlir::Type type;
  const TargetInfo &target;
  const mlir::Type bitsType;

  //===-- Constants ------------------------------------------------------===//

  Value number(double value) const {
    return splat(type,
                 builder.getFloatAttr(mlir::getElementTypeOrSelf(type), value));
  }
  Value integer(int64_t value) const {
    return splat(bitsType, builder.getIntegerAttr(
                               mlir::getElementTypeOrSelf(bitsType), value));
  }
  Value infinity() const {
    return number(std::numeric_limits<double>::infinity());
  }
  Value nan() const { return number(std::numeric_limits<double>::quiet_NaN()); }

  //===-- Floats ---------------------------------------------------------===//

  Value add(Value a, Value b) const { return op<mlir::arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) const { return op<mlir::arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) const { return op<mlir::arith::MulFOp>(a, b); }
  Value div(Value a, Value b) const { return op<mlir::arith::DivFOp>(a, b); }
  Value neg(Value a) const { return op<mlir::arith::NegFOp>(a); }
  /// a * b + c, rounded once. Without an instruction, f64 holds the product of
  /// floats exactly, and its rounding of the sum hardly ever shows. LLVM calls
  /// libm for doubles then.
  Value fma(Value a, Value b, Value c) const {
    if (target.isa().fusesMultiplyAdd() || isDouble())
      return op<mlir::math::FmaOp>(a, b, c);
    mlir::Type wide = withElement(builder.getF64Type());
    auto widen = [&](Value value) -> Value {
      return builder.createOrFold<mlir::arith::ExtFOp>(loc, wide, value);
    };
    Value product = op<mlir::arith::MulFOp>(widen(a), widen(b));
    Value sum = op<mlir::arith::AddFOp>(product, widen(c));
    return builder.createOrFold<mlir::arith::TruncFOp>(loc, type, sum);
  }
  Value abs(Value a) const { return op<mlir::math::AbsFOp>(a); }
  Value sqrt(Value a) const { return op<mlir::math::SqrtOp>(a); }
  Value trunc(Value a) const { return op<mlir::math::TruncOp>(a); }
  Value round(Value a) const { return op<mlir::math::RoundEvenOp>(a); }
  Value copySign(Value a, Value sign) const {
    return op<mlir::math::CopySignOp>(a, sign);
  }
  /// c[0] + x (c[1] + x (c[2] + ...)).
  template <typename T, size_t N>
  Value polynomial(Value x, const T (&c)[N]) const {
    Value sum = number(c[N - 1]);
    for (size_t i = N - 1; i-- > 0;)
      sum = fma(sum, x, number(c[i]));
    return sum;
  }

  //===-- Conditions; false for NaN --------------------------------------===//

  using Predicate = mlir::arith::CmpFPredicate;
  Value compare(Predicate predicate, Value a, Value b) const {
    return op<mlir::arith::CmpFOp>(predicate, a, b);
  }
  Value less(Value a, Value b) const { return compare(Predicate::OLT, a, b); }
  Value equal(Value a, Value b) const { return compare(Predicate::OEQ, a, b); }
  Value isNan(Value a) const { return compare(Predicate::UNO, a, a); }
  Value select(Value condition, Value a, Value b) const {
    return op<mlir::arith::SelectOp>(condition, a, b);
  }
  Value both(Value a, Value b) const { return op<mlir::arith::AndIOp>(a, b); }
  Value either(Value a, Value b) const { return op<mlir::arith::OrIOp>(a, b); }
  Value negate(Value condition) const {
    auto attr = builder.getIntegerAttr(
        mlir::getElementTypeOrSelf(condition.getType()), 1);
    return op<mlir::arith::XOrIOp>(condition, splat(condition.getType(), attr));
  }
  /// The larger of both, or `a` if it is NaN.
  Value atLeast(Value a, Value low) const {
    return select(less(a, low), low, a);
  }
  Value atMost(Value a, Value high) const {
    return select(less(high, a), high, a);
  }

  //===-- Bits -----------------------------------------------------------===//

  Value bits(Value a) const {
    return builder.create<mlir::arith::BitcastOp>(loc, bitsType, a);
  }
  Value fromBits(Value a) const {
    return builder.create<mlir::arith::BitcastOp>(loc, type, a);
  }
  Value addBits(Value a, Value b) const {
    return op<mlir::arith::AddIOp>(a, b);
  }
  Value subBits(Value a, Value b) const {
    return op<mlir::arith::SubIOp>(a, b);
  }
  Value andBits(Value a, Value b) const {
    return op<mlir::arith::AndIOp>(a, b);
  }
  Value orBits(Value a, Value b) const { return op<mlir::arith::OrIOp>(a, b); }
  /// Whether signed bits are `least` or more.
  Value atLeastBits(Value a, int64_t least) const {
    return op<mlir::arith::CmpIOp>(mlir::arith::CmpIPredicate::sge, a,
                                   integer(least));
  }
  Value xorBits(Value a, Value b) const {
    return op<mlir::arith::XOrIOp>(a, b);
  }
  Value shiftLeft(Value a, int64_t by) const {
    return op<mlir::arith::ShLIOp>(a, integer(by));
  }
  Value shiftRight(Value a, int64_t by) const {
    return op<mlir::arith::ShRUIOp>(a, integer(by));
  }
  Value shiftRightSigned(Value a, int64_t by) const {
    return op<mlir::arith::ShRSIOp>(a, integer(by));
  }
  Value toFloat(Value a) const {
    return builder.create<mlir::arith::SIToFPOp>(loc, type, a);
  }
  Value bitSet(Value a, int64_t bit) const {
    return builder.create<mlir::arith::CmpIOp>(
        loc, mlir::arith::CmpIPredicate::ne,
        andBits(a, integer(int64_t(1) << bit)), integer(0));
  }
  bool isDouble() const { return mlir::getElementTypeOrSelf(type).isF64(); }
  int64_t mantissaBits() const { return isDouble() ? 52 : 23; }
  int64_t exponentBias() const { return isDouble() ? 1023 : 127; }

  /// `a` rounded to the nearest integer, and that integer in the low bits of
  /// `low`.
  struct Rounded {
    Value number;
    Value low;
  };
  /// For |a| below 2^22 (floats) or 2^51 (doubles). Adding 1.5 * 2^23 (floats)
  /// moves the integer to the low end of the mantissa.
  Rounded roundToBits(Value a) const {
    Value magic = number(isDouble() ? 0x1.8p52 : 0x1.8p23);
    Value moved = add(a, magic);
    return {sub(moved, magic), bits(moved)};
  }
  /// Rounds the product, with one operation less.
  Rounded roundToBits(Value a, double factor) const {
    Value magic = number(isDouble() ? 0x1.8p52 : 0x1.8p23);
    Value moved = fma(a, number(factor), magic);
    return {sub(moved, magic), bits(moved)};
  }
  /// 2^n, for an integer n in the low bits. 2^n must be a normal number.
  Value powerOfTwo(Value low) const {
    return fromBits(addBits(shiftLeft(low, mantissaBits()),
                            integer(exponentBias() << mantissaBits())));
  }

  /// Whether the processor has instructions for scale() and lookup() on this
  /// type.
  bool hasScale() const { return target.isa().hasScale(type); }
  bool hasLookup() const { return target.isa().hasLookup(type); }

  /// a * 2^n for integral n, rounded once.
  Value scale(Value a, Value n) const {
    return target.isa().scale(builder, loc, a, n);
  }
  /// table[low bits of `index`], for each lane.
  template <size_t N> Value lookup(const float (&table)[N], Value index) const {
    auto shape = mlir::VectorType::get({N}, builder.getF32Type());
    return target.isa().lookup(
        builder, loc,
        mlir::DenseElementsAttr::get(shape, llvm::ArrayRef<float>(table)),
        index);
  }
  /// c[0] + x (c[1] + x (c[2] + ...)), where the index of each lane chooses its
  /// coefficients.
  template <size_t N, size_t M>
  Value polynomial(Value x, const float (&c)[N][M], Value index) const {
    Value sum = lookup(c[N - 1], index);
    for (size_t i = N - 1; i-- > 0;)
      sum = fma(sum, x, lookup(c[i], index));
    return sum;
  }

  mlir::Type withElement(mlir::Type element) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return mlir::VectorType::get(vector.getShape(), element);
    return element;
  }

private:
  template <typename Op, typename... Args> Value op(Args... args) const {
    return builder.createOrFold<Op>(loc, args...);
  }
  Value splat(mlir::Type shape, mlir::TypedAttr element) const {
    mlir::TypedAttr attr = element;
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(shape))
      attr = mlir::DenseElementsAttr::get(vector, mlir::Attribute(element));
    return builder.create<mlir::arith::ConstantOp>(loc, attr);
  }
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_MATHBUILDER_H
