//===- MathFormula.h - how a math operation is computed ------- -*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_MATHFORMULA_H
#define ANABRANCH_CODEGEN_MATH_MATHFORMULA_H

#include "codegen/math/MathBuilder.h"

namespace anabranch {
namespace codegen {

/// The sine, cosine and tangent are good up to this magnitude; above, the
/// reduction of the argument loses precision.
constexpr double trigonometricLimit = 65536;

struct MathFormula {
  using Unary = mlir::Value (*)(const MathBuilder &, mlir::Value);
  using Binary = mlir::Value (*)(const MathBuilder &, mlir::Value, mlir::Value);
  enum Way {
    Inline,   ///< the formula stands where the operation stood
    Outlined, ///< it stands in a function
    Limited,  ///< so, and libm computes magnitudes above trigonometricLimit
  };

  const char *operation; ///< of the dialect `math`, without its name
  /// The function of libm for f64; with an "f" behind it, that for f32. Null if
  /// the formula computes f64, too.
  const char *libm;
  Way way;
  Unary unary;
  Binary binary = nullptr; ///< for two operands, in the place of `unary`
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_MATHFORMULA_H
