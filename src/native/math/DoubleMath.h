//===- DoubleMath.h - functions computed in f64 -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_MATH_DOUBLEMATH_H
#define ANABRANCH_NATIVE_MATH_DOUBLEMATH_H

#include "native/math/MathFormula.h"
#include "llvm/ADT/ArrayRef.h"

namespace anabranch {
namespace native {

/// The formulas that compute in f64 and round to f32 once. They take a builder
/// of the f32 type.
llvm::ArrayRef<MathFormula> doubleFormulas();

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_DOUBLEMATH_H
