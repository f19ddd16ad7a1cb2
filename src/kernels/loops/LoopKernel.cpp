//===- LoopKernel.cpp - the plan of plain loops ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/LoopKernel.h"

#include "kernels/footprint/TileFootprint.h"
#include "kernels/loops/GroupEmitter.h"
#include "kernels/nests/BuildModel.h"
#include "kernels/splitting/SplitBorders.h"
#include "kernels/splitting/SplitPadding.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Each group owns consecutive tiles. Calls `body` for each group, with the
/// tile's number in it, under the condition that the tile is the group's.
static void forTile(const KernelModel &model, KernelFunction &function,
                    Value tile,
                    llvm::function_ref<void(const NestGroup &, Value)> body) {
  LaneBuilder &lanes = function.lanes;
  if (model.groups.size() == 1)
    return body(model.groups[0], tile);
  Value first = lanes.index(0);
  for (const NestGroup &group : model.groups) {
    Value last = lanes.addIndex(first, makeGrid(function, group).tiles);
    Value after =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, tile, first);
    Value before =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, tile, last);
    Value inside = lanes.make<arith::AndIOp>(after, before);
    lanes.ifThen(inside, [&] { body(group, lanes.subIndex(tile, first)); });
    first = last;
  }
}

static void emitGroups(const KernelModel &model, KernelShell::TileBody &body) {
  forTile(model, body.function, body.tile,
          [&](const NestGroup &group, Value tile) {
            GroupEmitter emitter(model, group, body.evaluator, body.scratch);
            emitter.emitTile(tile);
          });
}

static KernelShell::Grid gridOfGroups(const KernelModel &model,
                                      KernelFunction &function) {
  LaneBuilder &lanes = function.lanes;
  KernelShell::Grid plan{lanes.index(0), lanes.index(0)};
  for (const NestGroup &group : model.groups) {
    plan.tiles = lanes.addIndex(plan.tiles, makeGrid(function, group).tiles);
    plan.scratchBytes =
        lanes.maxIndex(plan.scratchBytes, planScratch(function, group).bytes);
  }
  return plan;
}

/// The positions of a tile in each shared dimension of its group.
static SmallVector<IndexRange> sharedRanges(KernelFunction &function,
                                            const NestGroup &group,
                                            RangeBuilder &ranges, Value tile) {
  LaneBuilder &lanes = function.lanes;
  TileGrid grid = makeGrid(function, group);
  TilePart part = partOf(lanes, grid, tile);
  SmallVector<Value> outerSizes;
  for (size_t loop = 0; loop < group.sharedLoops.size(); ++loop)
    if (static_cast<int>(loop) != group.laneLoop)
      outerSizes.push_back(grid.loopSizes[loop]);
  SmallVector<IndexRange> outer =
      ranges.split(ranges.between(part.firstOuter, part.lastOuter), outerSizes);
  SmallVector<IndexRange> shared(group.sharedCount,
                                 ranges.point(lanes.index(0)));
  const IndexRange *next = outer.begin();
  for (auto [number, loop] : llvm::enumerate(group.sharedLoops)) {
    // Of dimensions that run as one, the last one has the position.
    IndexRange &range = shared[loop.dims.back()];
    if (static_cast<int>(number) == group.laneLoop) {
      range = ranges.between(part.firstLane, part.lastLane);
      continue;
    }
    range = *next++;
    if (static_cast<int>(number) != group.blockLoop)
      continue;
    Value size = sizeOf(function, group, loop);
    Value block = lanes.index(group.blockSize);
    Value end =
        lanes.mulIndex(lanes.addIndex(range.high, lanes.index(1)), block);
    range = ranges.between(lanes.mulIndex(range.low, block),
                           lanes.minIndex(end, size));
  }
  return shared;
}

static void footprintOfGroup(const NestGroup &group,
                             KernelShell::FootprintBody &body, Value tile) {
  TileFootprint footprint(body.function);
  SmallVector<IndexRange> shared =
      sharedRanges(body.function, group, footprint.ranges, tile);
  for (const LoopNest *nest : group.nests) {
    auto whole = [&](analysis::DimOf size) {
      return footprint.ranges.whole(
          body.function.dim(size.tensor, size.dimension));
    };
    SmallVector<IndexRange> loops, index;
    for (const LoopNest::Loop &loop : nest->loops)
      loops.push_back(loop.shared < 0 ? whole(loop.size) : shared[loop.shared]);
    if (group.rangedLoop >= 0) {
      TileGrid grid = makeGrid(body.function, group);
      TilePart part = partOf(body.function.lanes, grid, tile);
      loops[group.rangedLoop] =
          footprint.ranges.between(part.firstOuter, part.lastOuter);
    }
    footprint.reads(nest->reads, loops);
    int64_t rank = cast<RankedTensorType>(nest->value.getType()).getRank();
    for (int64_t i = 0; i < rank; ++i)
      index.push_back(loops[nest->resultLoops[i]]);
    for (const Destination &destination : nest->destinations)
      footprint.writes(destination, index);
  }
  footprint.store(body.footprints);
}

static void footprintOfGroups(const KernelModel &model,
                              KernelShell::FootprintBody &body) {
  forTile(model, body.function, body.tile,
          [&](const NestGroup &group, Value tile) {
            footprintOfGroup(group, body, tile);
          });
}

namespace {

class LoopsPlan : public Plan {
public:
  LoopsPlan(func::FuncOp kernel, const native::TargetInfo &target)
      : kernel(kernel), target(target) {}

  PlanCost cost() const override { return {PlanCost::Rank::Last}; }

  LogicalResult prepare() override {
    splitPadding(kernel);
    splitBorders(kernel);
    FailureOr<KernelModel> built = buildModel(kernel, target);
    if (failed(built))
      return failure();
    model.emplace(std::move(*built));
    return success();
  }

  KernelShell::Grid grid(KernelFunction &function) const override {
    return gridOfGroups(*model, function);
  }
  void emitTile(KernelShell::TileBody &body) const override {
    emitGroups(*model, body);
  }
  void emitFootprint(KernelShell::FootprintBody &body) const override {
    footprintOfGroups(*model, body);
  }

private:
  func::FuncOp kernel;
  const native::TargetInfo &target;
  std::optional<KernelModel> model;
};

Proposal propose(func::FuncOp kernel, const native::TargetInfo &target) {
  return {std::make_unique<LoopsPlan>(kernel, target), {}};
}

} // namespace

const PlanRow loopsRow{"loops", propose};

} // namespace kernels
} // namespace anabranch
