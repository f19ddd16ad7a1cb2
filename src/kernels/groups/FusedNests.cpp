//===- FusedNests.cpp - nests that run in the same loops ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/groups/FusedNests.h"

#include "kernels/nests/LaneChoice.h"
#include "kernels/nests/SharedLoops.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

int64_t FusedNests::operations() const {
  int64_t total = 0;
  for (LoopNest *nest : members) {
    total += nest->reads.operations;
    for (LoopNest *temporary : nest->fills)
      total += temporary->reads.operations;
  }
  return total;
}

static bool canFuse(const KernelModel &model, const NestGroup &group,
                    const LoopNest &a, const LoopNest &b) {
  auto eligible = [](const LoopNest &nest) {
    if (nest.kind == LoopNest::Kind::Write ||
        nest.kind == LoopNest::Kind::Temporary)
      return true;
    return nest.kind == LoopNest::Kind::Reduce &&
           llvm::none_of(nest.innerLoops(), [&](unsigned loop) {
             return nest.loops[loop].parallel;
           });
  };
  SmallVector<unsigned> left = a.innerLoops(), right = b.innerLoops();
  if (!eligible(a) || !eligible(b) || left.size() != right.size())
    return false;
  for (auto [i, j] : llvm::zip(left, right))
    if (!model.sizes->equal(a.loops[i].size, b.loops[j].size))
      return false;
  // If lanes run along a reduction, every reduction must allow partial
  // accumulators.
  auto lanesA = innerLaneLoop(model, group, a),
       lanesB = innerLaneLoop(model, group, b);
  if (lanesA.has_value() != lanesB.has_value())
    return false;
  return !lanesA || llvm::find(left, *lanesA) - left.begin() ==
                        llvm::find(right, *lanesB) - right.begin();
}

/// The inner loops of the members, outermost first. Loops that can run as one
/// are joined.
static SmallVector<FusedLoop> innerLoops(const KernelModel &model,
                                         const NestGroup &group,
                                         ArrayRef<LoopNest *> members) {
  LoopNest &leader = *members[0];
  auto vectorized = innerLaneLoop(model, group, leader);
  SmallVector<unsigned> inner = leader.innerLoops();
  SmallVector<FusedLoop> made;
  for (size_t position = 0; position < inner.size(); ++position) {
    FusedLoop loop;
    loop.parallel = leader.loops[inner[position]].parallel;
    loop.hasLanes = vectorized && *vectorized == inner[position];
    for (LoopNest *member : members)
      loop.loops.push_back({member->innerLoops()[position]});
    bool joins = !made.empty() && made.back().parallel == loop.parallel &&
                 !made.back().hasLanes && leader.kind != LoopNest::Kind::Scan;
    for (size_t m = 0; joins && m < members.size(); ++m)
      joins = canJoin(model, *members[m], made.back().loops[m].back(),
                      loop.loops[m].front());
    if (!joins) {
      made.push_back(loop);
      continue;
    }
    for (size_t m = 0; m < members.size(); ++m)
      made.back().loops[m].append(loop.loops[m]);
    made.back().hasLanes = loop.hasLanes;
  }
  return made;
}

static void makeLoops(const KernelModel &model, const NestGroup &group,
                      FusedNests &fused) {
  LoopNest &leader = *fused.members[0];
  bool alone = leader.kind == LoopNest::Kind::Reduce ||
               leader.kind == LoopNest::Kind::Scan;
  for (FusedLoop &loop : innerLoops(model, group, fused.members))
    (alone && loop.parallel ? fused.outer : fused.inner).push_back(loop);
  for (auto *loops : {&fused.outer, &fused.inner}) {
    auto found = llvm::find_if(
        *loops, [](const FusedLoop &loop) { return loop.hasLanes; });
    if (found != loops->end())
      std::rotate(found, found + 1, loops->end());
  }
  bool lanesInside = !fused.inner.empty() && fused.inner.back().hasLanes;
  fused.splitsLanes =
      lanesInside && llvm::any_of(fused.members, [](LoopNest *member) {
        return member->kind == LoopNest::Kind::Reduce;
      });
}

std::vector<FusedNests> fuseNests(const KernelModel &model,
                                  const NestGroup &group,
                                  ArrayRef<LoopNest *> nests) {
  std::vector<FusedNests> result;
  for (LoopNest *nest : nests) {
    FusedNests *home = nullptr;
    for (FusedNests &fused : result)
      if (canFuse(model, group, *fused.members[0], *nest))
        home = &fused;
    if (!home) {
      result.emplace_back();
      home = &result.back();
    }
    home->members.push_back(nest);
  }
  for (FusedNests &fused : result)
    makeLoops(model, group, fused);
  return result;
}

} // namespace kernels
} // namespace anabranch
