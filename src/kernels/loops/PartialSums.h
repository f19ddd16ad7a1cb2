//===- PartialSums.h - reductions in several accumulators -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The error of a sum of n floats, added one after the other, grows with n: the
// mean of a million positive numbers loses three of seven digits. So a long sum
// starts again after some steps, and the sums of these pieces are added. Its
// error grows with the length of a piece and with the number of pieces.

#ifndef ANABRANCH_KERNELS_LOOPS_PARTIALSUMS_H
#define ANABRANCH_KERNELS_LOOPS_PARTIALSUMS_H

#include "kernels/groups/LoopContext.h"

namespace anabranch {
namespace kernels {

/// The accumulators of fused reductions. There may be several sets of them.
class PartialSums {
public:
  PartialSums(LoopContext &context, const FusedNests &nests)
      : context(context), lanes(context.lanes), nests(nests) {}

  /// Accumulators with their neutral elements, of the group's width if lanes
  /// are partial accumulators.
  Values neutral();
  /// Combines two sets of accumulators to one.
  Values combineAll(mlir::ValueRange left, mlir::ValueRange right);
  /// Whether the nests add so many floats, or an unknown number of them, that
  /// the sum is made in pieces. Every nest must allow that.
  bool isLong();
  /// Runs `body(low, high, carried)`, for a long sum once for each piece.
  /// Pieces are cut into pieces themselves.
  using PieceFn = llvm::function_ref<Values(mlir::Value low, mlir::Value high,
                                            mlir::ValueRange carried)>;
  Values inPieces(mlir::Value low, mlir::Value high, int64_t step,
                  mlir::ValueRange carried, PieceFn body);

private:
  Values cut(mlir::Value low, mlir::Value high, int64_t length, int64_t step,
             mlir::ValueRange carried, PieceFn body);

  LoopContext &context;
  LaneBuilder &lanes;
  const FusedNests &nests;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_PARTIALSUMS_H
