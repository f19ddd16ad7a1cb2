//===- NormalPower.h - powers of two without special cases ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_MATH_NORMALPOWER_H
#define ANABRANCH_NATIVE_MATH_NORMALPOWER_H

#include "mlir/Dialect/Math/IR/Math.h"

namespace anabranch {
namespace native {

class MathBuilder;

/// How far the caller needs a power of two: all digits of its type, or those
/// that rounding it to bf16 leaves (a relative error below 2^-12).
enum class PowerDigits { All, BF16 };

/// 2^(x * factor). For floats the caller promises that x is a NaN or that the
/// product is between -126 and 126, so that the power is a normal number.
mlir::Value makeNormalPower(mlir::OpBuilder &b, mlir::Location loc,
                            mlir::Value x, double factor, PowerDigits digits);

/// The formula of a power of floats that makeNormalPower made; null for others.
mlir::Value expandNormalPower(const MathBuilder &m, mlir::math::Exp2Op power);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_NORMALPOWER_H
