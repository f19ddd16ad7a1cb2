//===- EmitKernel.h - a kernel function becomes loops -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_EMITKERNEL_H
#define ANABRANCH_KERNELS_EMITKERNEL_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Support/LogicalResult.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// Turns named structured operations into generics, so that plans see one form
/// only.
mlir::LogicalResult generalizeKernel(mlir::func::FuncOp kernel);

/// Replaces the kernel function (level "kernel", on tensors) by NAME, NAME_plan
/// and perhaps NAME_setup and NAME_footprint (level "loops") in the same
/// module. If no plan makes it, a diagnostic has the reasons. Touches
/// nothing outside of the module, so that kernels of one context can be emitted
/// at once.
mlir::LogicalResult emitKernel(mlir::func::FuncOp kernel,
                               const native::TargetInfo &target);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMITKERNEL_H
