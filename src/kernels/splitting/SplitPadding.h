//===- SplitPadding.h - padding written piece by piece ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   Before: %p = tensor.insert_slice %x into (linalg.fill %c), returned
//   After:  %x and the slabs of %c around it, inserted into tensor.empty
//
// A padded tensor would ask for each element whether it lies inside. The pieces
// side by side are plain copies and plain fills.

#ifndef ANABRANCH_KERNELS_SPLITTING_SPLITPADDING_H
#define ANABRANCH_KERNELS_SPLITTING_SPLITPADDING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace anabranch {
namespace kernels {

/// Rewrites the padded tensors that the kernel returns and does not read, if
/// all sizes are static.
void splitPadding(mlir::func::FuncOp source);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_SPLITTING_SPLITPADDING_H
