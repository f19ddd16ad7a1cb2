//===- LoopKernel.cpp - the kernel choice of plain loops ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/loops/LoopKernel.h"

#include "codegen/emit/SplitFrames.h"
#include "codegen/footprint/TileReach.h"
#include "codegen/loops/GroupEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

static std::optional<std::string> refusal(func::FuncOp, const TargetInfo &) {
  return std::nullopt;
}

/// Each group owns the next so many tiles: emits what is to be done for the
/// group of this one, and its number there.
static void forTile(const KernelModel &model, KernelFrame &frame, Value tile,
                    llvm::function_ref<void(const Group &, Value)> body) {
  LaneBuilder &lanes = frame.lanes;
  if (model.groups.size() == 1)
    return body(model.groups[0], tile);
  Value first = lanes.index(0);
  for (const Group &group : model.groups) {
    Value last = lanes.addIndex(first, makeGrid(frame, group).tiles);
    Value after =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, tile, first);
    Value before =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, tile, last);
    Value inside = lanes.make<arith::AndIOp>(after, before);
    lanes.ifThen(inside, [&] { body(group, lanes.subIndex(tile, first)); });
    first = last;
  }
}

static void emitGroups(KernelModel &model, KernelShell::TileBody &body) {
  forTile(model, body.frame, body.tile, [&](const Group &group, Value tile) {
    GroupEmitter emitter(model, group, body.evaluator, body.scratch);
    emitter.emitTile(tile);
  });
}

static KernelShell::Plan planGroups(const KernelModel &model,
                                    KernelFrame &frame) {
  LaneBuilder &lanes = frame.lanes;
  KernelShell::Plan plan{lanes.index(0), lanes.index(0)};
  for (const Group &group : model.groups) {
    plan.tiles = lanes.addIndex(plan.tiles, makeGrid(frame, group).tiles);
    plan.scratchBytes =
        lanes.maxIndex(plan.scratchBytes, planScratch(frame, group).bytes);
  }
  return plan;
}

/// The positions that a tile has in each row of its group.
static SmallVector<IndexRange> rowRanges(KernelFrame &frame, const Group &group,
                                         RangeBuilder &ranges, Value tile) {
  LaneBuilder &lanes = frame.lanes;
  TileGrid grid = makeGrid(frame, group);
  TilePart part = partOf(lanes, grid, tile);
  SmallVector<Value> outerSizes;
  for (size_t row = 0; row < group.rows.size(); ++row)
    if (static_cast<int>(row) != group.laneRow)
      outerSizes.push_back(grid.rowSizes[row]);
  SmallVector<IndexRange> outer =
      ranges.split(ranges.between(part.firstRow, part.lastRow), outerSizes);
  SmallVector<IndexRange> rows(group.rowCount, ranges.point(lanes.index(0)));
  const IndexRange *next = outer.begin();
  for (auto [number, row] : llvm::enumerate(group.rows)) {
    // Rows that run as one: the last one has the position (setRow).
    IndexRange &range = rows[row.rows.back()];
    if (static_cast<int>(number) == group.laneRow) {
      range = ranges.between(part.firstLane, part.lastLane);
      continue;
    }
    range = *next++;
    if (static_cast<int>(number) != group.blockRow)
      continue;
    Value size = lanes.index(1), width = lanes.index(group.width);
    for (unsigned inner : row.rows) {
      DimOf dim = group.rowSizes[inner];
      size = lanes.mulIndex(size, frame.dim(dim.tensor, dim.dimension));
    }
    Value end =
        lanes.mulIndex(lanes.addIndex(range.high, lanes.index(1)), width);
    range = ranges.between(lanes.mulIndex(range.low, width),
                           lanes.minIndex(end, size));
  }
  return rows;
}

static void reachGroup(const Group &group, KernelShell::ReachBody &body,
                       Value tile) {
  TileReach reach(body.frame);
  SmallVector<IndexRange> rows =
      rowRanges(body.frame, group, reach.ranges, tile);
  for (const Nest *nest : group.nests) {
    auto whole = [&](DimOf size) {
      return reach.ranges.whole(body.frame.dim(size.tensor, size.dimension));
    };
    SmallVector<IndexRange> loops, index;
    for (const Nest::Loop &loop : nest->loops)
      loops.push_back(loop.row < 0 ? whole(loop.size) : rows[loop.row]);
    reach.reads(nest->reads, loops);
    int64_t rank = cast<RankedTensorType>(nest->value.getType()).getRank();
    // What data decides may be anywhere.
    for (int64_t i = 0; i < rank; ++i)
      index.push_back(nest->kind == Nest::Kind::Scatter
                          ? whole({nest->value, i})
                          : loops[nest->resultLoops[i]]);
    for (const Destination &destination : nest->destinations)
      reach.writes(destination, index);
  }
  reach.store(body.reaches);
}

static void reachGroups(KernelModel &model, KernelShell::ReachBody &body) {
  forTile(model, body.frame, body.tile, [&](const Group &group, Value tile) {
    reachGroup(group, body, tile);
  });
}

static LogicalResult emit(KernelShell &shell) {
  splitFrames(shell.source);
  FailureOr<KernelModel> model = KernelModel::build(shell.source, shell.target);
  if (failed(model))
    return failure();
  return shell.emit(
      [&](KernelShell::TileBody &body) { emitGroups(*model, body); },
      [&](KernelFrame &frame) { return planGroups(*model, frame); },
      [&](KernelShell::ReachBody &body) { reachGroups(*model, body); });
}

const KernelChoice loopKernel{"loops", refusal, emit};

} // namespace codegen
} // namespace anabranch
