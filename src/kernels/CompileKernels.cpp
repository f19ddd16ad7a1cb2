//===- CompileKernels.cpp - kernels to machine code -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/CompileKernels.h"

#include "kernels/EmitKernel.h"

namespace anabranch {
namespace kernels {

mlir::FailureOr<std::vector<native::KernelObject>>
compileKernels(mlir::ModuleOp module, const native::CompileOptions &options,
               const native::ProgressFn &progress) {
  return native::compile(module, options, emitKernel, progress);
}

} // namespace kernels
} // namespace anabranch
