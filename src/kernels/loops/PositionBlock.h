//===- PositionBlock.h - positions that run together ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_LOOPS_POSITIONBLOCK_H
#define ANABRANCH_KERNELS_LOOPS_POSITIONBLOCK_H

#include "kernels/loops/LoopContext.h"

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
  PositionBlock(LoopContext &context, std::function<void()> emitPosition)
      : context(context), lanes(context.lanes),
        emitPosition(std::move(emitPosition)) {}

  /// Emits the block. The shared index of the block loop is the block's number.
  void emit();

private:
  LoopContext &context;
  LaneBuilder &lanes;
  std::function<void()> emitPosition;

  void emitTransposed(const SharedLoop &loop, mlir::Value first);
  void emitInterleaved(const SharedLoop &loop, mlir::Value first);
  void emitWithWholeStores(const SharedLoop &loop, mlir::Value first);
  void emitSingly(const SharedLoop &loop, mlir::Value first, mlir::Value end);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_LOOPS_POSITIONBLOCK_H
