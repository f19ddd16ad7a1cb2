//===- LayoutCandidates.h - tilings that are worth timing -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_LAYOUTCANDIDATES_H
#define ANABRANCH_KERNELS_CONTRACTION_LAYOUTCANDIDATES_H

#include "kernels/contraction/BlockingParameters.h"
#include "kernels/contraction/ProductLayout.h"
#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Parameters of a plan around those that it chooses itself.
class LayoutCandidates {
public:
  /// Adds all combinations of sizes around a chosen tiling: not set, half and
  /// double. All keep the parameters in `block`.
  void addAround(const Tiling &chosen, const BlockingParameters &block,
                 llvm::ArrayRef<int64_t> distancesAhead = {});

  /// The layout that parameters lead to, and its cost.
  struct Found {
    Tiling tiling;
    int64_t bytesAhead;
    double cycles;
  };
  /// The candidates that lead to different code. Of equal ones, that with the
  /// fewest parameters stays.
  std::vector<PlanCandidate>
  distinct(llvm::function_ref<Found(const BlockingParameters &)> find);

private:
  std::vector<BlockingParameters> all;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_LAYOUTCANDIDATES_H
