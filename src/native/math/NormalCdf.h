//===- NormalCdf.h - the normal distribution in the place of erf *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_MATH_NORMALCDF_H
#define ANABRANCH_NATIVE_MATH_NORMALCDF_H

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Builders.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Replaces 1 + erf(x / sqrt(2)), a part of GELU, by twice the normal
/// distribution at x. Tables need fewer instructions than erf, and the sum
/// would cancel the digits of negative x. For an erf that may be approximate
/// (`afn`) the sum is accurate enough for bf16. Returns false, and changes
/// nothing, if the erf has other users or the processor cannot look up tables.
bool replaceByNormalCdf(mlir::math::ErfOp erf, mlir::OpBuilder &builder,
                        const TargetInfo &target);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_NORMALCDF_H
