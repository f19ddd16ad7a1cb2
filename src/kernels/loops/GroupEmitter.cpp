//===- GroupEmitter.cpp - a group of loop nests as code -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/GroupEmitter.h"

#include "kernels/control/VectorLoop.h"
#include "kernels/loops/FusedEmitter.h"
#include "kernels/loops/PositionBlock.h"
#include "kernels/loops/RowOrderSums.h"
#include "kernels/scatters/ScatterEmitter.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

GroupEmitter::GroupEmitter(const KernelModel &model, const NestGroup &group,
                           Evaluator &evaluator, Value scratchPointer,
                           std::optional<RangeLists> lists)
    : context(model, group, evaluator), lanes(context.lanes), group(group),
      grid(makeGrid(context.function, group)), storage(context, scratchPointer),
      lists(std::move(lists)) {}

void GroupEmitter::emitTile(Value tile) {
  context.sharedIndex.assign(group.sharedCount, lanes.indexLanes(0));
  emitOuterLoops(partOf(lanes, grid, tile));
}

void GroupEmitter::emitOuterLoops(const TilePart &part) {
  APInt one;
  bool single = matchPattern(grid.outerSize, m_ConstantInt(&one)) && one == 1;
  if (single || group.rangedLoop >= 0) {
    if (group.laneLoop >= 0)
      return emitLaneLoop(part);
    LaneBuilder::Scope scope(lanes);
    return emitPosition(part);
  }
  lanes.loop(part.firstOuter, part.lastOuter, 1, [&](Value number) {
    setOuterLoops(number);
    if (group.laneLoop >= 0)
      emitLaneLoop(part);
    else
      emitPosition(part);
  });
}

/// Splits a position in the product of the outer loops into their indices.
void GroupEmitter::setOuterLoops(Value number) {
  Lanes rest = Lanes::uniform(number);
  int outermost = group.laneLoop == 0 ? 1 : 0;
  for (int loop = group.sharedLoops.size(); loop-- > 0;) {
    if (loop == group.laneLoop)
      continue;
    if (loop == outermost) {
      context.setShared(group.sharedLoops[loop], rest);
      break;
    }
    auto [quotient, remainder] = lanes.divRem(rest, grid.loopSizes[loop]);
    context.setShared(group.sharedLoops[loop], remainder);
    rest = quotient;
  }
}

void GroupEmitter::emitLaneLoop(const TilePart &part) {
  if (group.lanesInside) {
    LaneBuilder::Scope scope(lanes);
    return emitPosition(part);
  }
  if (group.rowLevels)
    return emitInRowOrder(part);
  auto vectors = [&](llvm::function_ref<void()> emitBody) {
    vectorsOf(part).emit(lanes, {}, [&](Lanes index, ValueRange) {
      context.setShared(group.sharedLoops[group.laneLoop], index);
      emitBody();
      return Values();
    });
  };
  auto position = [&] { emitPosition(part); };
  if (group.blockLoop >= 0)
    PositionBlock(context, position).around(vectors);
  else
    vectors(position);
}

/// The lanes of the tile, vector by vector.
VectorLoop GroupEmitter::vectorsOf(const TilePart &part) {
  APInt size;
  bool isExact = matchPattern(grid.laneSize, m_ConstantInt(&size)) &&
                 size.getSExtValue() % group.width == 0;
  return {part.firstLane, part.lastLane, group.width, isExact,
          operations() > longBody};
}

/// Runs the reductions of the first level for all lanes of the tile, then the
/// other levels for each vector of lanes.
void GroupEmitter::emitInRowOrder(const TilePart &part) {
  SmallVector<LoopNest *> reductions;
  for (LoopNest *nest : group.nests)
    if (nest->level == 0)
      reductions.push_back(nest);
  std::vector<FusedNests> fused = fuseNests(context.model, group, reductions);
  VectorLoop vectors = vectorsOf(part);
  std::vector<RowOrderSums> sums;
  Value memory = storage.rowMemory();
  for (const FusedNests &nests : fused) {
    sums.emplace_back(context, storage, nests, memory, grid.lanesPerTile);
    sums.back().addRows(vectors);
    Value bytes = lanes.mulIndex(grid.lanesPerTile,
                                 lanes.index(sums.back().bytesOfLane()));
    memory = addBytes(lanes, memory, bytes);
  }
  vectors.emit(lanes, {}, [&](Lanes index, ValueRange) {
    context.setShared(group.sharedLoops[group.laneLoop], index);
    for (RowOrderSums &each : sums)
      each.deliver(index);
    emitPosition(part, /*firstLevel=*/1);
    return Values();
  });
}

int64_t GroupEmitter::operations() const {
  int64_t total = 0;
  for (LoopNest *nest : group.nests)
    total += nest->reads.operations;
  return total;
}

/// Emits the nests of one position, level by level. The part has the lanes of
/// nests that run them inside.
void GroupEmitter::emitPosition(const TilePart &part, unsigned firstLevel) {
  for (size_t i = 0; i < group.nests.size();) {
    unsigned level = group.nests[i]->level;
    SmallVector<LoopNest *> nests;
    for (; i < group.nests.size() && group.nests[i]->level == level; ++i)
      if (!group.nests[i]->filledBy)
        nests.push_back(group.nests[i]);
    if (level < firstLevel)
      continue;
    for (FusedNests &fused : fuseNests(context.model, group, nests)) {
      if (fused.members[0]->kind == LoopNest::Kind::Scatter)
        ScatterEmitter(context, storage, *fused.members[0], part, lists).emit();
      else
        FusedEmitter(context, storage, fused).emit();
    }
  }
}

} // namespace kernels
} // namespace anabranch
