//===- BuildModel.h - a kernel function becomes loop nests ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_NESTS_BUILDMODEL_H
#define ANABRANCH_CODEGEN_NESTS_BUILDMODEL_H

#include "codegen/nests/KernelModel.h"
#include "codegen/target/Target.h"

namespace anabranch {
namespace codegen {

/// Finds the loop nests of a kernel function and their groups. Decides how each
/// group runs on the target: its shared loops, lanes and transposed loads.
mlir::FailureOr<KernelModel> buildModel(mlir::func::FuncOp source,
                                        const TargetInfo &target);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_BUILDMODEL_H
