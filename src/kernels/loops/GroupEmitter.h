//===- GroupEmitter.h - a group of loop nests as code -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_LOOPS_GROUPEMITTER_H
#define ANABRANCH_KERNELS_LOOPS_GROUPEMITTER_H

#include "kernels/control/VectorLoop.h"
#include "kernels/groups/NestStorage.h"
#include "kernels/scatters/RangeLists.h"

namespace anabranch {
namespace kernels {

/// Emits one tile of a group: the shared loops of its part of the grid, and in
/// them the nests, level by level.
class GroupEmitter {
public:
  /// `lists` are those of a group whose tiles have ranges, else none.
  GroupEmitter(const KernelModel &model, const NestGroup &group,
               Evaluator &evaluator, mlir::Value scratchPointer,
               std::optional<RangeLists> lists);

  /// `tile` is an index below the grid's `tiles`.
  void emitTile(mlir::Value tile);

private:
  LoopContext context;
  LaneBuilder &lanes;
  const NestGroup &group;
  TileGrid grid;
  NestStorage storage;
  std::optional<RangeLists> lists;

  void emitOuterLoops(const TilePart &part);
  void setOuterLoops(mlir::Value number);
  void emitLaneLoop(const TilePart &part);
  void emitInRowOrder(const TilePart &part);
  VectorLoop vectorsOf(const TilePart &part);
  void emitPosition(const TilePart &part, unsigned firstLevel = 0);
  int64_t operations() const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_GROUPEMITTER_H
