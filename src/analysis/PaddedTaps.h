//===- PaddedTaps.h - reads of a padded tensor's windows --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A depthwise convolution and a pool read each point of their window through a
// slice of a padded tensor: a *tap*. For most of the result a tap lies inside
// the tensor that was padded; at the border it lies in the padding. Cut where a
// tap crosses from one to the other, the result falls into pieces in which each
// tap is a slice of the tensor, or a constant. So no kernel stores the
// padded tensor.

#ifndef ANABRANCH_ANALYSIS_PADDEDTAPS_H
#define ANABRANCH_ANALYSIS_PADDEDTAPS_H

#include "analysis/Padding.h"

namespace anabranch {
namespace analysis {

/// An operand that is a static slice of a padded tensor.
struct PaddedTap {
  Padding padding;
  mlir::tensor::ExtractSliceOp slice;
  /// The dimension of the slice for each dimension of the operand; -1 for one
  /// of a single element.
  llvm::SmallVector<int64_t> dims;
};
/// The tap that an operand is, found through reshapes that drop dimensions of
/// one element.
std::optional<PaddedTap> paddedTapOf(mlir::Value operand);

/// For each loop of an operator the points at which pieces begin, then the
/// number of all points. None if the operator is not elementwise, or a loop has
/// a symbolic size.
using Cuts = llvm::SmallVector<llvm::SmallVector<int64_t>>;
std::optional<Cuts> cutsOf(mlir::linalg::GenericOp op);
/// Adds the places of `more` to `cuts`.
void addCuts(Cuts &cuts, const Cuts &more);
int64_t pieceCount(const Cuts &cuts);

/// Whether only taps read this padding, all of one operator, which they cut
/// into so few pieces that a kernel can have loops for each.
bool isPaddingOfTaps(mlir::Operation *op);
/// Whether an operand of the operator is such a tap.
bool readsPaddedTaps(mlir::Operation *op);

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_PADDEDTAPS_H
