//===- PartialSums.h - reductions in several accumulators -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The error of a sum of n floats, one after the other, grows with n: the mean
// of a million positive numbers loses three of seven digits. So a long sum
// begins anew every so many steps, and only the sums of these pieces are added
// to each other: its error grows with the length of a piece and the number of
// pieces.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_PARTIALSUMS_H
#define ANABRANCH_CODEGEN_LOOPS_PARTIALSUMS_H

#include "codegen/loops/LoopContext.h"

namespace anabranch {
namespace codegen {

/// The accumulators of fused reductions, of which there may be several sets.
class PartialSums {
public:
  PartialSums(LoopContext &context, const FusedNests &nests)
      : context(context), lanes(context.lanes), nests(nests) {}

  /// Accumulators that hold nothing yet; of the group's width if lanes are
  /// partial accumulators.
  Values neutral();
  /// Both sets of accumulators as one.
  Values combineAll(mlir::ValueRange left, mlir::ValueRange right);
  /// Whether the nests add floats up in so many steps, or in an unknown number
  /// of them, that the sum is made in pieces; each must be able to begin anew.
  bool isLong();
  /// `body(low, high, carried)`, or the same for pieces of a long sum.
  using PieceFn = llvm::function_ref<Values(mlir::Value low, mlir::Value high,
                                            mlir::ValueRange carried)>;
  Values inPieces(mlir::Value low, mlir::Value high, int64_t step,
                  mlir::ValueRange carried, PieceFn body);

private:
  LoopContext &context;
  LaneBuilder &lanes;
  const FusedNests &nests;
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_PARTIALSUMS_H
