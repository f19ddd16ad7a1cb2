//===- FusedEmitter.h - the loops of fused nests ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_LOOPS_FUSEDEMITTER_H
#define ANABRANCH_KERNELS_LOOPS_FUSEDEMITTER_H

#include "kernels/groups/NestStorage.h"
#include "kernels/loops/PartialSums.h"
#include "kernels/loops/RowPrefetch.h"

namespace anabranch {
namespace kernels {

/// Emits the loops and bodies of fused nests for one position of the group's
/// shared loops: reductions, scans, writes and temporaries.
class FusedEmitter {
public:
  FusedEmitter(LoopContext &context, NestStorage &storage,
               const FusedNests &nests);

  /// Emits the nests, and binds their values for their readers.
  void emit();

  /// For reductions whose inner loop runs elsewhere: begins a position of the
  /// group's shared loops.
  void enter();
  /// Adds a step of the inner loop to accumulators.
  Values stepAt(const FusedLoop &loop, Lanes index, mlir::ValueRange carried);
  /// Delivers the results: the start values with what all steps added up to.
  void deliver(mlir::ValueRange added);

private:
  LoopContext &context;
  NestStorage &storage;
  const FusedNests &nests;
  Evaluator &evaluator;
  LaneBuilder &lanes;
  PartialSums sums;
  RowPrefetch nextRow;
  llvm::SmallVector<Point> points; ///< by member

  void setLoop(const FusedLoop &loop, Lanes index);
  void emitOuter(size_t depth);
  Values initial();
  Values emitInner(size_t depth, mlir::ValueRange carried);
  Values emitSplit(const FusedLoop &loop, mlir::ValueRange carried);
  Values emitUnrolled(const FusedLoop &loop, mlir::Value high, bool isExact,
                      mlir::ValueRange carried);
  void bindResults();
  Values step(mlir::ValueRange carried);
  Values stepReduce(LoopNest &nest, llvm::ArrayRef<Lanes> point,
                    mlir::ValueRange carried);
  mlir::Value stepScan(LoopNest &nest, llvm::ArrayRef<Lanes> point,
                       mlir::Value carried);
  void finish(mlir::ValueRange carried);
  void fillTemporaries(LoopNest &nest, llvm::ArrayRef<Lanes> point);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_FUSEDEMITTER_H
