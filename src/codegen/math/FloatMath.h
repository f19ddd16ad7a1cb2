//===- FloatMath.h - functions computed in f32 ------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_FLOATMATH_H
#define ANABRANCH_CODEGEN_MATH_FLOATMATH_H

#include "codegen/math/MathBuilder.h"

namespace anabranch {
namespace codegen {

/// Computed in f32, on scalars and vectors. Right for zeros, subnormals,
/// infinities and NaN; MathTest prints the largest error of each.
mlir::Value buildExp(const MathBuilder &m, mlir::Value x);
mlir::Value buildExp2(const MathBuilder &m, mlir::Value x);
mlir::Value buildExpm1(const MathBuilder &m, mlir::Value x);
mlir::Value buildTanh(const MathBuilder &m, mlir::Value x);
mlir::Value buildErf(const MathBuilder &m, mlir::Value x);
mlir::Value buildLog(const MathBuilder &m, mlir::Value x);
mlir::Value buildLog2(const MathBuilder &m, mlir::Value x);
mlir::Value buildLog10(const MathBuilder &m, mlir::Value x);
mlir::Value buildAsin(const MathBuilder &m, mlir::Value x);
mlir::Value buildAcos(const MathBuilder &m, mlir::Value x);
mlir::Value buildAtan(const MathBuilder &m, mlir::Value x);
mlir::Value buildAtan2(const MathBuilder &m, mlir::Value y, mlir::Value x);
mlir::Value buildRsqrt(const MathBuilder &m, mlir::Value x);
/// Half way cases go away from zero.
mlir::Value buildRound(const MathBuilder &m, mlir::Value x);

/// Good for |x| up to `trigonometricLimit`; above, the reduction of the
/// argument loses precision.
constexpr double trigonometricLimit = 65536;
mlir::Value buildSin(const MathBuilder &m, mlir::Value x);
mlir::Value buildCos(const MathBuilder &m, mlir::Value x);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_FLOATMATH_H
