//===- BoundLaunches.cpp - the launches of a plan in one call -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/plan/BoundLaunches.h"

#include <algorithm>

namespace anabranch::runtime {

BoundLaunches::BoundLaunches(const Plan &plan, const Commands &commands)
    : plan(plan), commands(commands), operands(commands.operands.size()),
      sizes(commands.sizes.size()), tiles(commands.launches.size()) {}

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

} // namespace anabranch::runtime
