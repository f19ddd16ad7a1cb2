//===- ExpandExtrema.h - maxima and minima of floats ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_MATH_EXPANDEXTREMA_H
#define ANABRANCH_NATIVE_MATH_EXPANDEXTREMA_H

#include "mlir/IR/BuiltinOps.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Replaces arith.maximumf and arith.minimumf, where they are no instruction,
/// by a comparison and a blend. The result is NaN if one operand is. Of two
/// zeros it is either.
void expandExtrema(mlir::ModuleOp module, const TargetInfo &target);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_EXPANDEXTREMA_H
