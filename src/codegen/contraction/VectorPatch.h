//===- VectorPatch.h - a patch that vector registers read -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_VECTORPATCH_H
#define ANABRANCH_CODEGEN_CONTRACTION_VECTORPATCH_H

#include "codegen/contraction/Contraction.h"
#include "codegen/contraction/PatchShape.h"
#include "codegen/target/Target.h"

namespace anabranch {
namespace codegen {

/// A copy of a part of an image, of whose windows a block in vector registers
/// reads a word of each at a time.
struct VectorPatch {
  PatchShape shape;

  /// The patch of a tile of about `rowsPerTile` windows, in blocks of
  /// `rowsOfBlock`. None if copies of whole windows are better.
  static std::optional<VectorPatch> choose(const Contraction &contraction,
                                           const TargetInfo &target,
                                           int64_t rowsOfBlock,
                                           int64_t rowsPerTile);

  /// Whole runs of a depth, in equal parts of at most so many depths.
  int64_t depthOfBlock(int64_t depth, int64_t most) const;
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_VECTORPATCH_H
