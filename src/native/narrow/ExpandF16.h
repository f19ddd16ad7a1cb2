//===- ExpandF16.h - f16 to floats and back ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_NARROW_EXPANDF16_H
#define ANABRANCH_NATIVE_NARROW_EXPANDF16_H

#include "mlir/IR/BuiltinOps.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Replaces conversions between f16 and wider floats by arithmetic on their
/// bits if the target has no instruction for them. LLVM would call a function
/// of the compiler's runtime library for each element, which nothing links.
/// Rounds to nearest even; a NaN becomes a quiet NaN.
void expandF16(mlir::ModuleOp module, const TargetInfo &target);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_NARROW_EXPANDF16_H
