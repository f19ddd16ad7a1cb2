//===- ExpandMath.h - math operations become arithmetic ---------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_EXPANDMATH_H
#define ANABRANCH_CODEGEN_MATH_EXPANDMATH_H

#include "codegen/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LogicalResult.h"

namespace anabranch {
namespace codegen {

/// Replaces every math operation that the processor lacks, on scalars and
/// vectors:
/// - f32: our own formulas (FloatMath.h), short ones where they stand, long
///   ones as private functions of the module;
/// - f16, bf16: the same in f32;
/// - f64: libm, one element after the other;
/// - integer powers: repeated squaring.
mlir::LogicalResult expandMath(mlir::ModuleOp module, const TargetInfo &target);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_EXPANDMATH_H
