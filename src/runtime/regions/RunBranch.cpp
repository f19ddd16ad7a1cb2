//===- RunBranch.cpp - run one of two regions -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/regions/RunBranch.h"

#include "runtime/regions/RegionRun.h"

namespace anabranch::runtime {

static bool holds(const RegionCaller &caller, const RegionArgument &predicate) {
  return predicate.buffer < 0 ? valueOf(predicate.size, caller.slots) != 0
                              : caller.holds(predicate.buffer);
}

Status runBranch(const RegionCaller &caller, int number) {
  const BranchPlan &branch = caller.commands.branches[number];
  RegionRun region(caller);
  region.pass(branch.arguments);
  region.take(branch.results);
  bool isChoice = branch.regions[0] != branch.regions[1];
  return region.run(
      branch.regions[isChoice && holds(caller, branch.predicate) ? 1 : 0]);
}

} // namespace anabranch::runtime
