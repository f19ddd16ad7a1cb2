//===- RunBranch.cpp - run one of two regions -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/regions/RunBranch.h"

#include "runtime/regions/RegionRun.h"

namespace anabranch::runtime {

static bool holds(const RegionCaller &caller, const RegionArgument &predicate) {
  if (predicate.buffer < 0)
    return valueOf(predicate.size, caller.slots) != 0;
  // A device that computes nothing leaves the predicate's memory as it was.
  return caller.plan.device->computes() &&
         *static_cast<const bool *>(
             caller.buffers.viewOf(predicate.buffer).data);
}

Status runBranch(const RegionCaller &caller, int number) {
  const BranchPlan &branch = caller.commands.branches[number];
  RegionRun region(caller);
  for (const RegionArgument &argument : branch.arguments)
    region.pass(argument);
  for (int result : branch.results)
    region.take(caller.buffers.viewOf(result));
  return region.run(branch.regions[holds(caller, branch.predicate) ? 1 : 0]);
}

} // namespace anabranch::runtime
