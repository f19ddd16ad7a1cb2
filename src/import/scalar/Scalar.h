//===- Scalar.h - arithmetic on one element, as PyTorch does it -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Lowerings write the body of a linalg.generic as formulas on `Num`:
//
//   return x * 0.5 * (1.0 + s::erf(x * M_SQRT1_2));
//
// An operation looks at the dtype and emits the arith or math operation for
// floats, signed, unsigned or bool. Both operands must have the same dtype;
// `s::cast` converts with PyTorch's rules.

#ifndef ANABRANCH_IMPORT_SCALAR_SCALAR_H
#define ANABRANCH_IMPORT_SCALAR_SCALAR_H

#include "import/scalar/DType.h"
#include "mlir/IR/Builders.h"

namespace anabranch {
namespace importer {

/// Where a body's operations are built.
struct Body {
  mlir::OpBuilder &builder;
  mlir::Location loc;

  template <typename OpT, typename... Args> auto create(Args &&...args) {
    return builder.createOrFold<OpT>(loc, std::forward<Args>(args)...);
  }
};

/// One element, in a body that is being built.
struct Num {
  Body *body = nullptr;
  mlir::Value value;
  DType dtype;

  /// A constant of this element's dtype.
  Num constant(double number) const;
  Num constant(int64_t number) const;
  Num constant(int number) const { return constant(int64_t(number)); }
};

/// Bools add with `or` and multiply with `and`. Integer division truncates; the
/// caller must guard it (see s::guardedDivisor).
Num operator+(Num a, Num b);
Num operator-(Num a, Num b);
Num operator*(Num a, Num b);
Num operator/(Num a, Num b);
Num operator-(Num a);
Num operator&(Num a, Num b);
Num operator|(Num a, Num b);
Num operator^(Num a, Num b);
Num operator!(Num a);
/// Ordered comparisons (false for NaN); `!=` is true for NaN.
Num operator<(Num a, Num b);
Num operator<=(Num a, Num b);
Num operator>(Num a, Num b);
Num operator>=(Num a, Num b);
Num operator==(Num a, Num b);
Num operator!=(Num a, Num b);

// Parentheses around a type or an operator are no C++.
// NOLINTBEGIN(bugprone-macro-parentheses)
#define ANABRANCH_SCALAR_MIXED(RESULT, OP)                                     \
  inline RESULT operator OP(Num a, double b) { return a OP a.constant(b); }    \
  inline RESULT operator OP(double a, Num b) { return b.constant(a) OP b; }
// NOLINTEND(bugprone-macro-parentheses)
ANABRANCH_SCALAR_MIXED(Num, +)
ANABRANCH_SCALAR_MIXED(Num, -)
ANABRANCH_SCALAR_MIXED(Num, *)
ANABRANCH_SCALAR_MIXED(Num, /)
ANABRANCH_SCALAR_MIXED(Num, <)
ANABRANCH_SCALAR_MIXED(Num, <=)
ANABRANCH_SCALAR_MIXED(Num, >)
ANABRANCH_SCALAR_MIXED(Num, >=)
ANABRANCH_SCALAR_MIXED(Num, ==)
ANABRANCH_SCALAR_MIXED(Num, !=)
#undef ANABRANCH_SCALAR_MIXED

namespace s {

Num constant(Body &body, DType dtype, double number);
Num constant(Body &body, DType dtype, int64_t number);

/// `x.to(dtype)`: nonzero and NaN are true, floats truncate to integers, and
/// conversions to f16 and bf16 go through f32.
Num cast(Num x, DType dtype);

/// The position along dimension `dim` of the surrounding generic, as i64.
Num index(Body &body, int64_t dim);
/// An `index` value converted to this dtype.
Num fromIndex(Body &body, mlir::Value index, DType dtype);
/// The f64 whose bits are the index.
Num fromBits(Body &body, mlir::Value index);
/// A number as `index`.
mlir::Value toIndex(Num x);

Num select(Num condition, Num a, Num b);
/// NaN if either is NaN, as torch.maximum and torch.minimum.
Num maximum(Num a, Num b);
Num minimum(Num a, Num b);
/// The other operand if one is NaN, as torch.fmax and torch.fmin.
Num fmax(Num a, Num b);
Num fmin(Num a, Num b);
Num isNan(Num x);
Num abs(Num x);
Num sign(Num x);
Num reciprocal(Num x);

/// Emits the check that `divisor` is not zero, and returns a divisor that is
/// safe to use in any case.
Num guardedDivisor(Num divisor);
/// Integer division that rounds down, the remainder with the divisor's sign
/// (floats too), and fmod.
Num floorDivide(Num a, Num b);
/// The truncated quotient for a divisor that is not zero. INT_MIN / -1 wraps.
Num truncatedQuotient(Num a, Num b);
Num remainder(Num a, Num b);
Num truncatedRemainder(Num a, Num b);

// sqrt, exp, sin and the others of the table.
#define ANABRANCH_MATH_FUNCTION(NAME, OPERATION, SAMPLES) Num NAME(Num x);
#include "import/scalar/MathFunctions.def"

Num floor(Num x);
Num ceil(Num x);
Num trunc(Num x);
Num roundeven(Num x);
Num sigmoid(Num x);
Num atan2(Num a, Num b);
Num pow(Num a, Num b);
Num copysign(Num a, Num b);
/// a * b + c, rounded once for floats.
Num multiplyAdd(Num a, Num b, Num c);
/// The sum plus the products of up to four bytes and those of a word; the one
/// or the other are unsigned.
Num byteDot(Num sum, Num word, llvm::ArrayRef<Num> bytes, bool unsignedWord);
/// log(exp(a) + exp(b)) without overflow.
Num logAddExp(Num a, Num b);

/// Fails the kernel with INDEX_OUT_OF_RANGE unless `condition` holds.
void checkIndex(Num condition);

} // namespace s
} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_SCALAR_SCALAR_H
