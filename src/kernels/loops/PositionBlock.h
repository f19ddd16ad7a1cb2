//===- PositionBlock.h - positions that run together ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_LOOPS_POSITIONBLOCK_H
#define ANABRANCH_KERNELS_LOOPS_POSITIONBLOCK_H

#include "kernels/groups/LoopContext.h"

#include <functional>

namespace anabranch {
namespace kernels {

/// Runs a block of positions of the group's block loop for one vector of lanes.
/// `emitPosition` emits the nests for one position. Transposed loads load whole
/// vectors along the block and transpose them in registers. Without transposed
/// loads, the positions are interleaved, so that a value that several positions
/// read is loaded once and needs its register only for a short time.
class PositionBlock {
public:
  /// The shared index of the block loop is the block's number.
  PositionBlock(LoopContext &context, std::function<void()> emitPosition);

  /// Calls `emitLoops` with the body that it emits for each vector of lanes:
  /// for a whole block, and again if the last block may have fewer positions.
  /// Which of the two it is doesn't change in the loops, so each has one body.
  void around(llvm::function_ref<void(llvm::function_ref<void()>)> emitLoops);

private:
  LoopContext &context;
  LaneBuilder &lanes;
  const SharedLoop &loop;
  const bool isInterleaved;
  std::function<void()> emitPosition;
  const Lanes number;
  mlir::Value first, end;      ///< the positions of a whole block
  mlir::Value size;            ///< of the loop
  std::optional<int64_t> rest; ///< positions of the last block; 0: it is whole

  void emitWhole();
  void emitLast();
  void emitTransposed();
  void emitInterleaved(int64_t positions);
  void emitWithWholeStores();
  void emitSingly();
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_POSITIONBLOCK_H
