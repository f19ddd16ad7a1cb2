//===- SplitBorders.h - results in pieces without padding -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   Before: %p = %x inserted into (linalg.fill %c)
//           %r = f(slices of %p), returned
//   After:  f of slices of %x and of constants, piece by piece, inserted into
//           tensor.empty
//
// The taps of a window (PaddedTaps.h) would ask for each element whether it
// lies in the padding. In a piece each tap has one answer.

#ifndef ANABRANCH_KERNELS_SPLITTING_SPLITBORDERS_H
#define ANABRANCH_KERNELS_SPLITTING_SPLITBORDERS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace anabranch {
namespace kernels {

/// Rewrites the written values that elementwise operators compute from padded
/// taps.
void splitBorders(mlir::func::FuncOp source);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_SPLITTING_SPLITBORDERS_H
