//===- BuildModel.h - a kernel function becomes loop nests ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_NESTS_BUILDMODEL_H
#define ANABRANCH_KERNELS_NESTS_BUILDMODEL_H

#include "kernels/nests/KernelModel.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// Finds the loop nests of a kernel function and their groups. Decides how each
/// group runs on the target: its shared loops, lanes and transposed loads.
mlir::FailureOr<KernelModel> buildModel(mlir::func::FuncOp source,
                                        const native::TargetInfo &target);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_BUILDMODEL_H
