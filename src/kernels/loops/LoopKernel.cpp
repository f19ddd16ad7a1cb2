//===- LoopKernel.cpp - the plan of plain loops ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/LoopKernel.h"

#include "analysis/OperationCost.h"
#include "ir/Anabranch.h"
#include "ir/Sizes.h"
#include "kernels/footprint/TileFootprint.h"
#include "kernels/loops/GroupEmitter.h"
#include "kernels/nests/BuildModel.h"
#include "kernels/splitting/SplitBorders.h"
#include "kernels/splitting/SplitPadding.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

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

namespace {
/// The scratch memory of a worker: the lists of all groups, which last from the
/// setup on, and memory for the group of a tile.
struct ScratchMemory {
  std::vector<std::optional<RangeLists>> lists; ///< by group
  Value rest;                                   ///< !llvm.ptr

  ScratchMemory(const KernelModel &model, KernelFunction &function,
                Value scratch)
      : rest(scratch) {
    for (const NestGroup &group : model.groups) {
      lists.emplace_back();
      if (group.rangedLoop < 0)
        continue;
      lists.back().emplace(function, group, rest);
      rest = addBytes(function.lanes, rest, RangeLists::bytes(function, group));
    }
  }
};
} // namespace

static void emitGroups(const KernelModel &model, KernelShell::TileBody &body) {
  ScratchMemory memory(model, body.function, body.scratch);
  forTile(model, body.function, body.tile,
          [&](const NestGroup &group, Value tile) {
            size_t number = &group - model.groups.data();
            GroupEmitter emitter(model, group, body.evaluator, memory.rest,
                                 memory.lists[number]);
            emitter.emitTile(tile);
          });
}

static void sortUpdates(const KernelModel &model, KernelShell::TileBody &body) {
  ScratchMemory memory(model, body.function, body.scratch);
  for (const std::optional<RangeLists> &lists : memory.lists)
    if (lists)
      lists->sort(body.evaluator);
}

static KernelShell::Grid gridOfGroups(const KernelModel &model,
                                      KernelFunction &function) {
  LaneBuilder &lanes = function.lanes;
  Value tiles = lanes.index(0), lists = tiles, rest = tiles;
  for (const NestGroup &group : model.groups) {
    tiles = lanes.addIndex(tiles, makeGrid(function, group).tiles);
    lists = lanes.addIndex(lists, RangeLists::bytes(function, group));
    rest = lanes.maxIndex(rest, planScratch(function, group).bytes);
  }
  return {tiles, lanes.addIndex(lists, rest)};
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

/// Cycles of an operation's loops: each point of a reduction adds to a sum that
/// may be in memory, the others are computed a vector at a time.
static double cyclesOf(linalg::LinalgOp op, const native::TargetInfo &target) {
  double points = 1;
  for (int64_t size : op.getStaticLoopRanges())
    points *= double(ShapedType::isDynamic(size) ? ir::typicalSize
                                                 : std::max<int64_t>(size, 1));
  if (op.getNumReductionLoops())
    return points * target.model.cycles.loopPoint;
  return points * double(analysis::operationsOf(op)) / target.lanes(32);
}

namespace {

class LoopsPlan : public Plan {
public:
  LoopsPlan(func::FuncOp kernel, const native::TargetInfo &target)
      : kernel(kernel), target(target) {}

  double cost() const override {
    double cycles = target.model.cycles.tile;
    for (auto op : func::FuncOp(kernel).front().getOps<linalg::LinalgOp>())
      cycles += cyclesOf(op, target);
    return cycles;
  }

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
  bool hasSetup() const override {
    return llvm::any_of(model->groups, [](const NestGroup &group) {
      return group.rangedLoop >= 0;
    });
  }
  void emitSetup(KernelShell::TileBody &body) const override {
    sortUpdates(*model, body);
  }

private:
  func::FuncOp kernel;
  const native::TargetInfo &target;
  std::optional<KernelModel> model;
};

Proposal propose(func::FuncOp kernel, const native::TargetInfo &target) {
  for (Operation &op : kernel.front())
    if (isa<ir::AttentionOp, ir::FftOp>(op))
      return Proposal::refuse("it has an operator that is no loops of points");
  return {std::make_unique<LoopsPlan>(kernel, target), {}};
}

} // namespace

const PlanRow loopsRow{"loops", propose};

} // namespace kernels
} // namespace anabranch
