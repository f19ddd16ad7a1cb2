//===- DoubleMath.h - functions computed in f64 -----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_DOUBLEMATH_H
#define ANABRANCH_CODEGEN_MATH_DOUBLEMATH_H

#include "codegen/math/MathBuilder.h"

namespace anabranch {
namespace codegen {

/// Computed in f64 and rounded to f32 once. `m` has the f32 type.
mlir::Value buildTan(const MathBuilder &m, mlir::Value x);
mlir::Value buildSinh(const MathBuilder &m, mlir::Value x);
mlir::Value buildCosh(const MathBuilder &m, mlir::Value x);
mlir::Value buildAsinh(const MathBuilder &m, mlir::Value x);
mlir::Value buildAcosh(const MathBuilder &m, mlir::Value x);
mlir::Value buildAtanh(const MathBuilder &m, mlir::Value x);
mlir::Value buildLog1p(const MathBuilder &m, mlir::Value x);
mlir::Value buildCbrt(const MathBuilder &m, mlir::Value x);
mlir::Value buildPow(const MathBuilder &m, mlir::Value x, mlir::Value y);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_DOUBLEMATH_H
