//===- FloatMath.h - functions computed in f32 ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_MATH_FLOATMATH_H
#define ANABRANCH_NATIVE_MATH_FLOATMATH_H

#include "native/math/MathFormula.h"
#include "llvm/ADT/ArrayRef.h"

namespace anabranch {
namespace native {

/// The formulas that compute in f32, on scalars and vectors. They are right for
/// zeros, subnormals, infinities and NaN. MathTest prints the largest error of
/// each.
llvm::ArrayRef<MathFormula> floatFormulas();

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_FLOATMATH_H
