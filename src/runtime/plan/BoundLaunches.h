//===- BoundLaunches.h - the launches of a plan in one call -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_BOUNDLAUNCHES_H
#define ANABRANCH_RUNTIME_PLAN_BOUNDLAUNCHES_H

#include "runtime/plan/LaunchScratch.h"
#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The launches of a plan with the pointers, sizes and grids of one call.
class BoundLaunches {
public:
  BoundLaunches(const Plan &plan, const Commands &commands);

  /// Computes sizes and grids from the size table.
  Status resize(const int64_t *slots);

  /// Makes what setups have computed void. Call it before each call of the
  /// program: its arguments may have other values.
  void beginCall();

  /// Runs a range of tiles of a launch, and returns the kernel's status. The
  /// memory of `scratch` has `scratchBytes`.
  int32_t run(int launch, int64_t first, int64_t count,
              LaunchScratch scratch) const {
    const LaunchPlan &l = commands.launches[launch];
    void *const *buffers = operands.data() + l.firstOperand;
    const int64_t *values = sizes.data() + l.firstSize;
    if (l.kernel.setup) {
      if (int32_t status = setUp(launch, scratch))
        return status;
    } else {
      scratch.setup = 0;
    }
    for (int64_t tile = first; tile < first + count; ++tile)
      if (int32_t status = l.kernel.run(buffers, values, scratch.memory, tile))
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

private:
  int32_t setUp(int launch, LaunchScratch scratch) const;

  bool hasSetups = false;
  uint64_t firstSetup = 0; ///< the number of the first launch's setup
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_BOUNDLAUNCHES_H
