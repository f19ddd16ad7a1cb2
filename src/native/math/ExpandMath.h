//===- ExpandMath.h - math operations become arithmetic ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_MATH_EXPANDMATH_H
#define ANABRANCH_NATIVE_MATH_EXPANDMATH_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LogicalResult.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Replaces every math operation that the processor lacks, on scalars and
/// vectors:
/// - f32: our own formulas (FloatMath.h), short ones where they stand, long
///   ones as private functions of the module;
/// - f16, bf16: the same in f32;
/// - f64: libm, one element after the other;
/// - integer powers: repeated squaring.
mlir::LogicalResult expandMath(mlir::ModuleOp module, const TargetInfo &target);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_EXPANDMATH_H
