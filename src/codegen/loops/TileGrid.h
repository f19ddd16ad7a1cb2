//===- TileGrid.h - how a group is cut into tiles ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Written into both functions of a kernel, which must agree.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_TILEGRID_H
#define ANABRANCH_CODEGEN_LOOPS_TILEGRID_H

#include "codegen/emit/KernelFrame.h"
#include "codegen/loops/KernelModel.h"

namespace anabranch {
namespace codegen {

struct TileGrid {
  /// Of Group::rows; of the one in blocks the number of blocks.
  mlir::SmallVector<mlir::Value> rowSizes;
  mlir::Value outerRows;   ///< product of all rows but the lanes'
  mlir::Value laneSize;    ///< of the lanes' row; null without
  mlir::Value rowsPerTile; ///< of the outer rows
  mlir::Value lanesPerTile;
  mlir::Value laneTiles; ///< next to each other along the lanes
  mlir::Value tiles;     ///< in all
};

TileGrid makeGrid(KernelFrame &frame, const Group &group);

/// The positions that a tile has in the product of the outer rows and in the
/// lanes' row, each from the first up to but without the last.
struct TilePart {
  mlir::Value firstRow, lastRow;
  mlir::Value firstLane, lastLane; ///< null without a row of lanes
};
TilePart partOf(LaneBuilder &lanes, const TileGrid &grid, mlir::Value tile);

/// Scratch memory of the nests that keep more than one value per row.
struct ScratchPart {
  Nest *nest;
  mlir::Value value;  ///< of the nest's results
  mlir::Value offset; ///< in bytes
};
struct Scratch {
  mlir::SmallVector<ScratchPart> parts;
  mlir::Value bytes;
};
Scratch planScratch(KernelFrame &frame, const Group &group);

/// Whether the nest's value needs scratch memory: it is read, is not a scalar
/// per row, and is not written where it could be read again.
bool needsScratch(const Nest &nest);
/// The values that a nest makes.
mlir::SmallVector<mlir::Value> valuesOf(const Nest &nest);
/// The dimensions of the nest's value that are no rows.
mlir::SmallVector<unsigned> innerDims(const Nest &nest);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_TILEGRID_H
