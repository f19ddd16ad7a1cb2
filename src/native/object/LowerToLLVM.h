//===- LowerToLLVM.h - loops to the LLVM dialect ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_NATIVE_OBJECT_LOWERTOLLVM_H
#define ANABRANCH_NATIVE_OBJECT_LOWERTOLLVM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LogicalResult.h"
#include "native/target/Target.h"

namespace anabranch {
namespace native {

/// Registers the interfaces that lowering and translation need, beyond the
/// dialects.
void registerCodegenInterfaces(mlir::DialectRegistry &registry);

/// Turns a module at level "loops" into the LLVM dialect. It runs no pass
/// manager, so that several threads can lower modules of one context.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module,
                                const TargetInfo &target);

} // namespace native
} // namespace anabranch

#endif // ANABRANCH_NATIVE_OBJECT_LOWERTOLLVM_H
