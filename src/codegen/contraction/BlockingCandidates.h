//===- BlockingCandidates.h - blockings that are worth timing ---*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_BLOCKINGCANDIDATES_H
#define ANABRANCH_CODEGEN_CONTRACTION_BLOCKINGCANDIDATES_H

#include "codegen/contraction/GemmBlocking.h"

#include <vector>

namespace anabranch {
namespace codegen {

struct BlockingCandidate {
  BlockingParameters parameters; ///< none set: what is chosen without them
  double cycles;                 ///< of one core, estimated
};

/// At most `most` blockings that differ: first the one that is chosen anyway,
/// then those that the cost model estimates to be fastest. That one alone where
/// a size of the product is not known.
std::vector<BlockingCandidate> listBlockings(const Contraction &contraction,
                                             const TargetInfo &target,
                                             size_t most);

/// Cycles of one core for all tiles of a product of known sizes: products,
/// reading, copies to panels, sums that wait for the next block of the depth,
/// and the start of each tile.
double estimateCycles(const Contraction &contraction, const TargetInfo &target,
                      const GemmBlocking &blocking);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_BLOCKINGCANDIDATES_H
