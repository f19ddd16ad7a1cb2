//===- ExpandBytes.h - arithmetic of quantised graphs -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Emission writes the operations of a body on vectors. Processors round a float
// to an integer in one instruction, and add four products of bytes in another;
// LLVM finds neither.

#ifndef ANABRANCH_NATIVE_MATH_EXPANDBYTES_H
#define ANABRANCH_NATIVE_MATH_EXPANDBYTES_H

#include "mlir/IR/BuiltinOps.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Replaces every anabranch.byte_dot, on scalars and vectors: by a dot product
/// where the target has one of its length, else by single products.
void expandByteDots(mlir::ModuleOp module, const TargetInfo &target);

/// Replaces conversions of rounded floats to integers of 32 bits.
void expandRounding(mlir::ModuleOp module);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_MATH_EXPANDBYTES_H
