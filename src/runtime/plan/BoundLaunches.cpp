//===- BoundLaunches.cpp - the launches of a plan in one call -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/plan/BoundLaunches.h"

#include <algorithm>
#include <atomic>

namespace anabranch::runtime {

BoundLaunches::BoundLaunches(const Plan &plan, const Commands &commands)
    : plan(plan), commands(commands), operands(commands.operands.size()),
      sizes(commands.sizes.size()), tiles(commands.launches.size()) {
  for (const LaunchPlan &launch : commands.launches)
    hasSetups |= launch.kernel.setup != nullptr;
}

Status BoundLaunches::resize(const int64_t *slots) {
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = valueOf(commands.sizes[i], slots);
  sharedTiles = 0;
  scratchBytes = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const LaunchPlan &launch = commands.launches[i];
    anabranch_kernel_plan grid{0, 0};
    launch.kernel.grid(sizes.data() + launch.firstSize, &grid);
    if (grid.tiles < 0 || grid.scratch_bytes < 0 || grid.tiles >> 32)
      return Status(StatusCode::Internal, "a kernel has an impossible grid");
    tiles[i] = grid.tiles;
    if (grid.tiles > 1)
      sharedTiles += grid.tiles;
    scratchBytes =
        std::max(scratchBytes, static_cast<size_t>(grid.scratch_bytes));
  }
  // Launches of different streams overlap, even with one tile each.
  for (const SuperKernel &super : commands.supers)
    if (super.streamCount > 1)
      sharedTiles += super.launchCount;
  return {};
}

void BoundLaunches::beginCall() {
  // No process makes so many calls that a number comes twice.
  static std::atomic<uint64_t> used{0};
  if (hasSetups)
    firstSetup =
        1 + used.fetch_add(commands.launches.size(), std::memory_order_relaxed);
}

/// Fills the scratch memory with what the launch's tiles share, unless it has
/// that already.
int32_t BoundLaunches::setUp(int launch, LaunchScratch scratch) const {
  uint64_t wanted = firstSetup + static_cast<uint64_t>(launch);
  if (scratch.setup == wanted)
    return ANABRANCH_KERNEL_OK;
  const LaunchPlan &l = commands.launches[launch];
  scratch.setup = 0;
  int32_t status = l.kernel.setup(operands.data() + l.firstOperand,
                                  sizes.data() + l.firstSize, scratch.memory);
  if (status == ANABRANCH_KERNEL_OK)
    scratch.setup = wanted;
  return status;
}

} // namespace anabranch::runtime
