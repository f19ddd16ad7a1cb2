//===- MathFormula.h - how a math operation is computed ------- -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_MATH_MATHFORMULA_H
#define ANABRANCH_NATIVE_MATH_MATHFORMULA_H

#include "native/math/MathBuilder.h"

namespace anabranch {
namespace native {

/// Sine, cosine and tangent are accurate up to this magnitude. Above, the
/// reduction of the argument loses precision.
constexpr double trigonometricLimit = 65536;

struct MathFormula {
  using Unary = mlir::Value (*)(const MathBuilder &, mlir::Value);
  using Binary = mlir::Value (*)(const MathBuilder &, mlir::Value, mlir::Value);
  enum Way {
    Inline,   ///< the formula takes the place of the operation
    Outlined, ///< a private function contains the formula
    Limited,  ///< outlined; libm computes magnitudes above trigonometricLimit
  };

  const char *operation; ///< of the dialect `math`, without its name
  /// The function of libm for f64; with an "f" appended, that for f32. Null if
  /// the formula computes f64 too.
  const char *libm;
  Way way;
  Unary unary;
  Binary binary = nullptr; ///< for two operands, instead of `unary`
};

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_MATHFORMULA_H
