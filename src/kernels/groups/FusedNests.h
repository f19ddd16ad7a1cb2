//===- FusedNests.h - nests that run in the same loops ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GROUPS_FUSEDNESTS_H
#define ANABRANCH_KERNELS_GROUPS_FUSEDNESTS_H

#include "kernels/nests/KernelModel.h"

namespace anabranch {
namespace kernels {

/// One loop of fused nests. For each member it has the loops that run as one;
/// the last of them counts.
struct FusedLoop {
  llvm::SmallVector<llvm::SmallVector<unsigned>> loops;
  bool parallel;
  bool hasLanes = false;
};

/// Nests that run in the same loops.
struct FusedNests {
  llvm::SmallVector<LoopNest *> members;
  llvm::SmallVector<FusedLoop> outer; ///< around the accumulators
  llvm::SmallVector<FusedLoop> inner; ///< that the accumulators run over
  bool splitsLanes = false;           ///< lanes are partial accumulators

  /// The scalar operations of one point, those of the temporaries filled there
  /// included.
  int64_t operations() const;
};

/// Fuses nests of one level that have the same inner loops.
std::vector<FusedNests> fuseNests(const KernelModel &model,
                                  const NestGroup &group,
                                  llvm::ArrayRef<LoopNest *> nests);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GROUPS_FUSEDNESTS_H
