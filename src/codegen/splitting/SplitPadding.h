//===- SplitPadding.h - padding written piece by piece ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
//   Before: %p = tensor.insert_slice %x into (linalg.fill %c), returned
//   After:  %x and the slabs of %c around it, inserted into tensor.empty
//
// A padded tensor would ask for each element whether it lies inside. The pieces
// side by side are plain copies and plain fills.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_SPLITTING_SPLITPADDING_H
#define ANABRANCH_CODEGEN_SPLITTING_SPLITPADDING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace anabranch {
namespace codegen {

/// Rewrites the padded tensors that the kernel returns and does not read, if
/// all sizes are static.
void splitPadding(mlir::func::FuncOp source);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_SPLITTING_SPLITPADDING_H
