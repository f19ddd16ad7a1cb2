//===- TileGrid.cpp - how a group is cut into tiles -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/TileGrid.h"

#include "kernels/nests/RowOrder.h"
#include "kernels/nests/ScatterTiles.h"
#include "machine/limits/MachineRates.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// A tile should cost this many scalar operations, some microseconds, so that
/// claiming it costs little in comparison. Moving a byte counts as eight
/// operations.
static constexpr int64_t tileCost = 1024 * 1024;
static constexpr int64_t byteCost = 8;
/// Lanes of a tile whose accesses go to another cache line in each lane. A
/// quarter of the lines of the first-level cache stay there until the next
/// position needs their other elements.
static constexpr int64_t stridedLanes =
    machine::UsualCore::l1Bytes / machine::lineBytes / 4;
/// Each worker sorts the updates of a scatter by the tiles that they belong to,
/// which costs so much for each. It pays if rows cost several times that.
static constexpr int64_t sortCost = 512;
static constexpr int64_t mostRanges = 32;
/// Bytes of each row in a tile that goes through rows: enough lines for the
/// prefetcher.
static constexpr int64_t rowBytes = 8 * machine::lineBytes;

SmallVector<unsigned> innerDims(const LoopNest &nest) {
  SmallVector<unsigned> dims;
  for (auto [dim, loop] : llvm::enumerate(nest.resultLoops))
    if (nest.loops[loop].shared < 0)
      dims.push_back(dim);
  return dims;
}

SmallVector<Value> valuesOf(const LoopNest &nest) {
  if (nest.op)
    return SmallVector<Value>(nest.op->result_begin(), nest.op->result_end());
  return {nest.value};
}

bool needsScratch(const LoopNest &nest) {
  if (nest.kind == LoopNest::Kind::Write)
    return false;
  if (nest.kind == LoopNest::Kind::Scatter)
    return nest.destinations.empty();
  return nest.isRead && nest.destinations.empty() && !innerDims(nest).empty();
}

/// How often the nest's body runs for each position of the shared loops: for
/// each element of the result and, in a scatter, for each update.
static Value pointsPerPosition(KernelFunction &function, const LoopNest &nest) {
  LaneBuilder &lanes = function.lanes;
  Value points = lanes.index(1);
  for (unsigned loop : nest.innerLoops()) {
    analysis::DimOf size = nest.loops[loop].size;
    points = lanes.mulIndex(points, function.dim(size.tensor, size.dimension));
  }
  if (nest.kind != LoopNest::Kind::Scatter)
    return points;
  return lanes.addIndex(
      points, updatesPerPosition(function, nest, /*countRows=*/false));
}

/// The cost of one position of the outer loops, at least one.
static Value costPerPosition(KernelFunction &function, const NestGroup &group) {
  LaneBuilder &lanes = function.lanes;
  Value total = lanes.index(0);
  for (LoopNest *nest : group.nests) {
    int64_t point = nest->reads.operations;
    for (const analysis::Read &read : nest->reads.reads)
      point +=
          byteCost * elementBytes(getElementTypeOrSelf(read.tensor.getType()));
    point += nest->destinations.size() * byteCost *
             elementBytes(getElementTypeOrSelf(nest->value.getType()));
    Value points = pointsPerPosition(function, *nest);
    total = lanes.addIndex(total, lanes.mulIndex(points, lanes.index(point)));
  }
  return lanes.maxIndex(total, lanes.index(1));
}

/// The size of the innermost of several outer loops; null if there is at most
/// one.
static Value innermostOuter(const NestGroup &group, const TileGrid &grid) {
  Value innermost;
  unsigned count = 0;
  for (size_t loop = 0; loop < group.sharedLoops.size(); ++loop) {
    if (static_cast<int>(loop) == group.laneLoop)
      continue;
    innermost = grid.loopSizes[loop];
    ++count;
  }
  return count > 1 ? innermost : Value();
}

Value sizeOf(KernelFunction &function, const NestGroup &group,
             const SharedLoop &loop) {
  Value size = function.lanes.index(1);
  for (unsigned part : loop.dims) {
    analysis::DimOf dim = group.sharedSizes[part];
    size =
        function.lanes.mulIndex(size, function.dim(dim.tensor, dim.dimension));
  }
  return size;
}

/// The least number whose power of two is not below `size`, which is positive.
static Value ceilLog(LaneBuilder &lanes, Value size) {
  Value before = lanes.toI64(lanes.subIndex(size, lanes.index(1)));
  Value zeros = lanes.make<math::CountLeadingZerosOp>(before);
  Value log = lanes.make<arith::SubIOp>(lanes.i64(64), zeros);
  return lanes.make<arith::IndexCastOp>(lanes.builder.getIndexType(), log);
}

/// Cuts the loop of which tiles have ranges. There is at least one tile, which
/// checks the indices.
static TileGrid makeRanges(KernelFunction &function, const NestGroup &group) {
  LaneBuilder &lanes = function.lanes;
  const LoopNest &nest = *group.nests.front();
  analysis::DimOf size = nest.loops[group.rangedLoop].size;
  TileGrid grid;
  Value one = lanes.index(1);
  grid.outerSize = function.dim(size.tensor, size.dimension);
  grid.laneTiles = one;
  Value cost = costPerPosition(function, group);
  Value looks = updatesPerPosition(function, nest, /*countRows=*/true);
  Value sorting = lanes.mulIndex(looks, lanes.index(4 * sortCost));
  Value pays =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::uge, cost, sorting);
  Value ranges = lanes.divIndex(cost, lanes.index(tileCost));
  ranges = lanes.minIndex(lanes.maxIndex(ranges, one), lanes.index(mostRanges));
  ranges = lanes.make<arith::SelectOp>(pays, ranges, one);
  Value least = lanes.maxIndex(lanes.ceilDivIndex(grid.outerSize, ranges), one);
  grid.outerPerTileLog = ceilLog(lanes, least);
  grid.outerPerTile = lanes.make<arith::ShLIOp>(one, grid.outerPerTileLog);
  grid.tiles = lanes.maxIndex(
      lanes.ceilDivIndex(grid.outerSize, grid.outerPerTile), one);
  return grid;
}

TileGrid makeGrid(KernelFunction &function, const NestGroup &group) {
  if (group.rangedLoop >= 0)
    return makeRanges(function, group);
  LaneBuilder &lanes = function.lanes;
  TileGrid grid;
  Value one = lanes.index(1);
  grid.outerSize = one;
  for (auto [number, loop] : llvm::enumerate(group.sharedLoops)) {
    Value size = sizeOf(function, group, loop);
    if (static_cast<int>(number) == group.blockLoop)
      size = lanes.ceilDivIndex(size, lanes.index(group.blockSize));
    grid.loopSizes.push_back(size);
    if (static_cast<int>(number) == group.laneLoop)
      grid.laneSize = size;
    else
      grid.outerSize = lanes.mulIndex(grid.outerSize, size);
  }
  Value perPosition = costPerPosition(function, group);
  perPosition = lanes.mulIndex(perPosition, lanes.index(group.blockSize));
  Value target = lanes.index(tileCost);
  grid.laneTiles = one;
  if (grid.laneSize) {
    int64_t step = group.width * 4 / group.vectors;
    if (group.lanesInside) {
      Type element = getElementTypeOrSelf(group.nests[0]->value.getType());
      step = std::max(step, rowBytes / elementBytes(element));
    }
    if (group.rowLevels)
      step = std::max(step, bytesOfRow(function.target) / narrowestRead(group));
    Value chunk = lanes.divIndex(target, perPosition);
    if (group.strided)
      chunk = lanes.minIndex(chunk, lanes.index(stridedLanes));
    auto roundUp = [&](Value value, int64_t to) {
      Value units = lanes.ceilDivIndex(value, lanes.index(to));
      return lanes.mulIndex(lanes.maxIndex(units, one), lanes.index(to));
    };
    chunk = roundUp(chunk, step);
    grid.lanesPerTile =
        lanes.minIndex(chunk, roundUp(grid.laneSize, group.width));
    grid.laneTiles = lanes.ceilDivIndex(grid.laneSize, grid.lanesPerTile);
    Value covered =
        lanes.maxIndex(lanes.minIndex(grid.laneSize, grid.lanesPerTile), one);
    perPosition = lanes.mulIndex(perPosition, covered);
  }
  grid.outerPerTile = lanes.maxIndex(lanes.divIndex(target, perPosition), one);
  // If a tile has several positions of the loops further out, it gets whole
  // ones, so that its accesses form a box.
  if (Value inner = innermostOuter(group, grid)) {
    inner = lanes.maxIndex(inner, one);
    Value whole =
        lanes.mulIndex(lanes.divIndex(grid.outerPerTile, inner), inner);
    Value several = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge,
                                              grid.outerPerTile, inner);
    grid.outerPerTile =
        lanes.make<arith::SelectOp>(several, whole, grid.outerPerTile);
  }
  grid.tiles = lanes.mulIndex(
      lanes.ceilDivIndex(grid.outerSize, grid.outerPerTile), grid.laneTiles);
  return grid;
}

TilePart partOf(LaneBuilder &lanes, const TileGrid &grid, Value tile) {
  TilePart part;
  Value outerTile = lanes.divIndex(tile, grid.laneTiles);
  part.firstOuter = lanes.mulIndex(outerTile, grid.outerPerTile);
  part.lastOuter = lanes.minIndex(
      lanes.addIndex(part.firstOuter, grid.outerPerTile), grid.outerSize);
  if (!grid.laneSize)
    return part;
  Value laneTile = lanes.remIndex(tile, grid.laneTiles);
  part.firstLane = lanes.mulIndex(laneTile, grid.lanesPerTile);
  part.lastLane = lanes.minIndex(
      lanes.addIndex(part.firstLane, grid.lanesPerTile), grid.laneSize);
  return part;
}

int64_t bytesOfValues(const LoopNest &nest) {
  int64_t bytes = 0;
  for (Value value : valuesOf(nest))
    bytes += elementBytes(getElementTypeOrSelf(value.getType()));
  return bytes;
}

/// The bytes of the partial results of reductions in row order.
static Value rowScratchBytes(KernelFunction &function, const NestGroup &group) {
  int64_t perLane = 0;
  for (const LoopNest *nest : group.nests)
    if (nest->level == 0)
      perLane += bytesOfValues(*nest);
  LaneBuilder &lanes = function.lanes;
  return lanes.mulIndex(makeGrid(function, group).lanesPerTile,
                        lanes.index(perLane * group.rowLevels));
}

Scratch planScratch(KernelFunction &function, const NestGroup &group) {
  LaneBuilder &lanes = function.lanes;
  Scratch scratch;
  scratch.bytes = lanes.index(0);
  Value line = lanes.index(function.target.model.lineBytes);
  for (LoopNest *nest : group.nests) {
    if (!needsScratch(*nest))
      continue;
    for (Value value : valuesOf(*nest)) {
      scratch.parts.push_back({nest, value, scratch.bytes});
      int64_t perElement = elementBytes(getElementTypeOrSelf(value.getType())) *
                           (group.laneLoop >= 0 ? group.width : 1);
      Value bytes = lanes.index(perElement);
      for (unsigned dim : innerDims(*nest))
        bytes = lanes.mulIndex(bytes, function.dim(value, dim));
      Value rounded = lanes.mulIndex(lanes.ceilDivIndex(bytes, line), line);
      scratch.bytes = lanes.addIndex(scratch.bytes, rounded);
    }
  }
  scratch.rows = scratch.bytes;
  if (group.rowLevels)
    scratch.bytes =
        lanes.addIndex(scratch.bytes, rowScratchBytes(function, group));
  return scratch;
}

} // namespace kernels
} // namespace anabranch
