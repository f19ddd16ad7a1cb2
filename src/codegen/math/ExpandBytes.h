//===- ExpandBytes.h - arithmetic of quantised graphs -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Emission writes the operations of a body on vectors. Processors round a float
// to an integer in one instruction, and add four products of bytes in another;
// LLVM finds neither.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_MATH_EXPANDBYTES_H
#define ANABRANCH_CODEGEN_MATH_EXPANDBYTES_H

#include "codegen/target/Target.h"
#include "mlir/IR/BuiltinOps.h"

namespace anabranch {
namespace codegen {

/// Replaces every anabranch.byte_dot, on scalars and vectors: by a dot product
/// where the target has one of its length, else by single products.
void expandByteDots(mlir::ModuleOp module, const TargetInfo &target);

/// Replaces conversions of rounded floats to integers of 32 bits.
void expandRounding(mlir::ModuleOp module);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_MATH_EXPANDBYTES_H
