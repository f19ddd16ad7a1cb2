//===- VectorPatch.h - a patch that vector registers read -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_VECTORPATCH_H
#define ANABRANCH_KERNELS_CONTRACTION_VECTORPATCH_H

#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/PatchShape.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// A copy of a part of an image, of whose windows a block in vector registers
/// reads a word of each at a time.
struct VectorPatch {
  PatchShape shape;

  /// The patch of a tile of about `rowsPerTile` windows, in blocks of
  /// `rowsOfBlock`. None if copies of whole windows are better.
  static std::optional<VectorPatch> choose(const Contraction &contraction,
                                           const native::TargetInfo &target,
                                           int64_t rowsOfBlock,
                                           int64_t rowsPerTile);

  /// Whole runs of a depth, in equal parts of at most so many depths.
  int64_t depthOfBlock(int64_t depth, int64_t most) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_VECTORPATCH_H
