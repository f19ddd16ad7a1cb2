//===- RowOrderSums.h - reductions that go row by row -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Runs the reductions of a group's first level in the order of rows
// (nests/RowOrder.h):
//
//   for rows r, r + 1, ...:                 a few at once
//     for lanes of the tile:
//       partial[0][lanes] += body(r, lanes) + body(r + 1, lanes) + ...
//
// A level of partial results is added to the next one after some steps, since
// the error of a float sum grows with its number of steps (PartialSums.h).

#ifndef ANABRANCH_KERNELS_LOOPS_ROWORDERSUMS_H
#define ANABRANCH_KERNELS_LOOPS_ROWORDERSUMS_H

#include "kernels/control/VectorLoop.h"
#include "kernels/loops/FusedEmitter.h"

namespace anabranch {
namespace kernels {

class RowOrderSums {
public:
  /// `memory` has room for the partial results: `lanesOfLevel` elements of each
  /// value, in the group's number of levels.
  RowOrderSums(LoopContext &context, NestStorage &storage,
               const FusedNests &nests, mlir::Value memory,
               mlir::Value lanesOfLevel);

  /// Bytes of the partial results of one lane, in all levels.
  int64_t bytesOfLane() const;

  /// Adds up all rows for the lanes of the loop.
  void addRows(const VectorLoop &lanesOfTile);
  /// Delivers the results of these lanes, which are the context's position.
  void deliver(Lanes lane);

private:
  LoopContext &context;
  NestStorage &storage;
  const FusedNests &nests;
  LaneBuilder &lanes;
  mlir::Value memory, lanesOfLevel, firstLane;
  PartialSums sums;
  const VectorLoop *loop = nullptr;

  mlir::SmallVector<mlir::Type> elements() const;
  int64_t bytesOfLevel() const;
  void forLanes(llvm::function_ref<void(Lanes lane)> body);
  void addPart(int64_t level, mlir::Value low, mlir::Value high);
  void addAtOnce(mlir::Value row, int64_t count);
  void clear(int64_t level);
  void addLevel(int64_t from, int64_t to);
  Buffer bufferOf(int64_t level, size_t value);
  Values load(int64_t level, Lanes lane);
  void store(int64_t level, Lanes lane, mlir::ValueRange values);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_ROWORDERSUMS_H
