//===- ExpandF8.h - floats of eight bits to f32 and back --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_NARROW_EXPANDF8_H
#define ANABRANCH_NATIVE_NARROW_EXPANDF8_H

#include "mlir/IR/BuiltinOps.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Replaces conversions between f32 and a float of eight bits, of scalars and
/// vectors, by arithmetic on their bits. LLVM has no such types. A number is
/// rounded to the nearest, as in PyTorch 2.13: one that is too large becomes
/// infinity (E5M2), the largest number (E4M3FN) or NaN (FNUZ).
void expandF8(mlir::ModuleOp module, const TargetInfo &target);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_NARROW_EXPANDF8_H
