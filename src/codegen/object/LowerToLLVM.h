//===- LowerToLLVM.h - loops to the LLVM dialect ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_OBJECT_LOWERTOLLVM_H
#define ANABRANCH_CODEGEN_OBJECT_LOWERTOLLVM_H

#include "codegen/target/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LogicalResult.h"

namespace anabranch {
namespace codegen {

/// Registers the interfaces that lowering and translation need, beyond the
/// dialects.
void registerCodegenInterfaces(mlir::DialectRegistry &registry);

/// Turns a module at level "loops" into the LLVM dialect. It runs no pass
/// manager, so that several threads can lower modules of one context.
mlir::LogicalResult lowerToLLVM(mlir::ModuleOp module,
                                const TargetInfo &target);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_OBJECT_LOWERTOLLVM_H
