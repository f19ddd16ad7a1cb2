//===- CompileKernels.h - kernels to machine code ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The door of this room: kernel functions go in, object files come out.

#ifndef ANABRANCH_KERNELS_COMPILEKERNELS_H
#define ANABRANCH_KERNELS_COMPILEKERNELS_H

#include "native/Compile.h"

namespace anabranch {
namespace kernels {

/// Compiles the functions of a module (native/Compile.h). For those on tensors
/// (level "kernel", with the attribute `anabranch.kernel`) the plans
/// make NAME and NAME_plan, NAME_setup if its tiles share something, and
/// NAME_footprint if the function has the attribute `anabranch.footprint`.
mlir::FailureOr<std::vector<native::KernelObject>>
compileKernels(mlir::ModuleOp module, const native::CompileOptions &options,
               const native::ProgressFn &progress = {});

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_COMPILEKERNELS_H
