//===- TileGrid.h - how a group is cut into tiles ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The grid is emitted into both functions of a kernel, which must agree on it.

#ifndef ANABRANCH_KERNELS_NESTS_TILEGRID_H
#define ANABRANCH_KERNELS_NESTS_TILEGRID_H

#include "kernels/emit/KernelFunction.h"
#include "kernels/nests/KernelModel.h"

namespace anabranch {
namespace kernels {

struct TileGrid {
  /// The sizes of NestGroup::sharedLoops. For the block loop, the number of
  /// blocks.
  mlir::SmallVector<mlir::Value> loopSizes;
  mlir::Value outerSize;    ///< the product of all loops but the lanes'
  mlir::Value laneSize;     ///< the lanes' loop; null if there is none
  mlir::Value outerPerTile; ///< of the outer loops
  /// If tiles have ranges, `outerPerTile` is two to this power.
  mlir::Value outerPerTileLog;
  mlir::Value lanesPerTile;
  mlir::Value laneTiles; ///< next to each other along the lanes
  mlir::Value tiles;     ///< in all
};

TileGrid makeGrid(KernelFunction &function, const NestGroup &group);

/// The part of a tile: positions in the product of the outer loops, and in the
/// lanes' loop. Each goes from the first to before the last.
struct TilePart {
  mlir::Value firstOuter, lastOuter;
  mlir::Value firstLane, lastLane; ///< null without a loop of lanes
};
TilePart partOf(LaneBuilder &lanes, const TileGrid &grid, mlir::Value tile);

/// The bytes of one element of each of the nest's values.
int64_t bytesOfValues(const LoopNest &nest);

/// The scratch memory of a value of a nest that keeps more than one element for
/// each position.
struct ScratchPart {
  LoopNest *nest;
  mlir::Value value;  ///< of the nest's results
  mlir::Value offset; ///< in bytes
};
struct Scratch {
  mlir::SmallVector<ScratchPart> parts;
  /// Where the partial results of reductions in row order begin, in bytes.
  mlir::Value rows;
  mlir::Value bytes;
};
Scratch planScratch(KernelFunction &function, const NestGroup &group);

/// The trip count of a shared loop of the group.
mlir::Value sizeOf(KernelFunction &function, const NestGroup &group,
                   const SharedLoop &loop);

/// Whether the nest's value needs scratch memory: another nest reads it, it is
/// more than a scalar for each position, and it is not written to a place from
/// which it can be read again.
bool needsScratch(const LoopNest &nest);
/// The values that a nest makes.
mlir::SmallVector<mlir::Value> valuesOf(const LoopNest &nest);
/// The dimensions of the nest's value that are not shared.
mlir::SmallVector<unsigned> innerDims(const LoopNest &nest);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_TILEGRID_H
