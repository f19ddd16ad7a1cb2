//===- EmitKernel.h - a kernel function becomes loops -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMITKERNEL_H
#define ANABRANCH_CODEGEN_EMITKERNEL_H

#include "codegen/emit/KernelChoice.h"
#include "codegen/target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Support/LogicalResult.h"

namespace anabranch {
namespace codegen {

/// Replaces the kernel function (level "kernel", on tensors) by NAME and
/// NAME_plan (level "loops") in the same module. The first kernel choice that
/// accepts makes the kernel; if none does, a diagnostic tells each refusal's
/// reason. Touches nothing outside its module, so that many kernels of one
/// context can be emitted at once.
/// Named structured operations become generics, so that there is one form.
mlir::LogicalResult generalizeKernel(mlir::func::FuncOp kernel);

/// The choice that makes a kernel of generics, or null and why each refuses.
const KernelChoice *chooseKernel(mlir::func::FuncOp kernel,
                                 const TargetInfo &target,
                                 std::string &reasons);

/// Writes the loops of a kernel beside it and erases it.
mlir::LogicalResult emitKernel(mlir::func::FuncOp kernel,
                               const TargetInfo &target);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMITKERNEL_H
