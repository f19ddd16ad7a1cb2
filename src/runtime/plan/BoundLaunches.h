//===- BoundLaunches.h - the launches of a plan in one call -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_PLAN_BOUNDLAUNCHES_H
#define ANABRANCH_RUNTIME_PLAN_BOUNDLAUNCHES_H

#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The launches of a plan with the pointers, sizes and grids of one call.
class BoundLaunches {
public:
  BoundLaunches(const Plan &plan, const Commands &commands);

  /// Computes sizes and grids from the size table.
  Status resize(const int64_t *slots);

  /// Runs a range of tiles of a launch, and returns the kernel's status.
  /// `scratch` has `scratchBytes`.
  int32_t run(int launch, int64_t first, int64_t count, void *scratch) const {
    const LaunchPlan &l = commands.launches[launch];
    void *const *buffers = operands.data() + l.firstOperand;
    const int64_t *values = sizes.data() + l.firstSize;
    for (int64_t tile = first; tile < first + count; ++tile)
      if (int32_t status = l.kernel.run(buffers, values, scratch, tile))
        return status;
    return ANABRANCH_KERNEL_OK;
  }

  const trace::Label &labelOf(int label) const {
    return plan.info->labels[static_cast<size_t>(label)];
  }

  const Plan &plan;
  const Commands &commands;
  std::vector<void *> operands; ///< of all launches, one after the other
  std::vector<int64_t> sizes;
  std::vector<int64_t> tiles; ///< by launch
  int64_t sharedTiles = 0;    ///< of launches that have more than one
  size_t scratchBytes = 0;    ///< the most that any launch needs
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_BOUNDLAUNCHES_H
