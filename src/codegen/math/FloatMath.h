//===- FloatMath.h - functions computed in f32 ------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_FLOATMATH_H
#define ANABRANCH_CODEGEN_MATH_FLOATMATH_H

#include "codegen/math/MathFormula.h"
#include "llvm/ADT/ArrayRef.h"

namespace anabranch {
namespace codegen {

/// The formulas that compute in f32, on scalars and vectors. They are right for
/// zeros, subnormals, infinities and NaN. MathTest prints the largest error of
/// each.
llvm::ArrayRef<MathFormula> floatFormulas();

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_FLOATMATH_H
