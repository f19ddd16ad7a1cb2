//===- EmitKernel.cpp - a kernel function becomes loops -------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/EmitKernel.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

LogicalResult emitKernel(func::FuncOp kernel, const TargetInfo &target) {
  return kernel.emitError("no kernel choice accepts this kernel for target ")
         << target.name;
}

} // namespace codegen
} // namespace anabranch
