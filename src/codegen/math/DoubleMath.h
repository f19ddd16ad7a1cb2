//===- DoubleMath.h - functions computed in f64 -----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_DOUBLEMATH_H
#define ANABRANCH_CODEGEN_MATH_DOUBLEMATH_H

#include "codegen/math/MathFormula.h"
#include "llvm/ADT/ArrayRef.h"

namespace anabranch {
namespace codegen {

/// The formulas that compute in f64 and round to f32 once. They take a builder
/// of the f32 type.
llvm::ArrayRef<MathFormula> doubleFormulas();

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_DOUBLEMATH_H
