//===- ExpandBF16.h - f32 to bf16 and back ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Emission writes arith.truncf and arith.extf between f32 and bf16. Processors
// have an instruction for the first at most, and LLVM's form of both is slow.

#ifndef ANABRANCH_NATIVE_NARROW_EXPANDBF16_H
#define ANABRANCH_NATIVE_NARROW_EXPANDBF16_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Allows the function to round f32 below 2^-126 to zero of bf16.
/// Instructions do, and one takes the place of the seven instructions of exact
/// rounding.
void allowFlushingBF16(mlir::func::FuncOp function);

/// Replaces every conversion between f32 and bf16, on scalars and vectors. bf16
/// rounds to nearest even, and a NaN becomes a quiet NaN.
void expandBF16(mlir::ModuleOp module, const TargetInfo &target);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_NARROW_EXPANDBF16_H
