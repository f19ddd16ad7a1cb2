//===- LayoutCandidates.cpp - tilings that are worth timing ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/LayoutCandidates.h"

#include <algorithm>
#include <set>
#include <tuple>

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The values to try instead of `chosen`: not set, half and double.
static SmallVector<std::optional<int64_t>> around(int64_t chosen) {
  return {std::nullopt, std::max<int64_t>(chosen / 2, 1), chosen * 2};
}

void LayoutCandidates::addAround(const Tiling &chosen,
                                 const BlockingParameters &block,
                                 ArrayRef<int64_t> distancesAhead) {
  SmallVector<std::optional<int64_t>> ahead{std::nullopt};
  ahead.append(distancesAhead.begin(), distancesAhead.end());
  for (auto depth : around(chosen.depth))
    for (auto rowsPerTile : around(chosen.rowsPerTile))
      for (auto panelsPerTile : around(chosen.panelsPerTile))
        for (auto bytesAhead : ahead) {
          BlockingParameters parameters = block;
          parameters.depth = depth;
          parameters.rowsPerTile = rowsPerTile;
          parameters.panelsPerTile = panelsPerTile;
          parameters.bytesAhead = bytesAhead;
          all.push_back(parameters);
        }
}

std::vector<PlanCandidate> LayoutCandidates::distinct(
    function_ref<Found(const BlockingParameters &)> find) {
  llvm::sort(all, [](const auto &a, const auto &b) {
    return std::pair(a.count(), a.text()) < std::pair(b.count(), b.text());
  });
  auto identityOf = [](const Found &found) {
    const Tiling &tiling = found.tiling;
    return std::tuple(tiling.rows, tiling.vectors, tiling.depth,
                      tiling.rowsPerTile, tiling.panelsPerTile,
                      found.bytesAhead);
  };
  std::set<decltype(identityOf(std::declval<Found>()))> seen;
  std::vector<PlanCandidate> candidates;
  for (const BlockingParameters &parameters : all) {
    Found found = find(parameters);
    if (seen.insert(identityOf(found)).second)
      candidates.push_back({parameters.text(), found.cycles});
  }
  return candidates;
}

} // namespace kernels
} // namespace anabranch
