//===- BlockingCandidates.h - blockings that are worth timing ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_BLOCKINGCANDIDATES_H
#define ANABRANCH_KERNELS_CONTRACTION_BLOCKINGCANDIDATES_H

#include "kernels/contraction/GemmBlocking.h"

#include <vector>

namespace anabranch {
namespace kernels {

struct BlockingCandidate {
  BlockingParameters parameters; ///< none set: the default choice
  double cycles;                 ///< estimate for one core
};

/// At most `most` different blockings: first the default, then those that the
/// cost model estimates to be fastest. If a size of the product is not known,
/// only the default.
std::vector<BlockingCandidate> listBlockings(const Contraction &contraction,
                                             const native::TargetInfo &target,
                                             size_t most);

/// Estimated cycles of one core for all tiles of a product of static sizes:
/// products, reading, copies to panels, sums that wait for the next block of
/// the depth, and the start of each tile.
double estimateCycles(const Contraction &contraction,
                      const native::TargetInfo &target,
                      const GemmBlocking &blocking);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_BLOCKINGCANDIDATES_H
