//===- PositionBlock.h - positions that run together ------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_POSITIONBLOCK_H
#define ANABRANCH_CODEGEN_LOOPS_POSITIONBLOCK_H

#include "codegen/loops/LoopContext.h"

namespace anabranch {
namespace codegen {

/// Runs a block of positions of the group's block loop for one vector of lanes;
/// `emitPosition` writes the nests for one position. Transposed loads are
/// loaded as whole vectors along the block and transposed in registers; without
/// them the positions are interleaved, so that each value that several read is
/// loaded once and soon forgotten.
class PositionBlock {
public:
  PositionBlock(LoopContext &context, llvm::function_ref<void()> emitPosition)
      : context(context), lanes(context.lanes), emitPosition(emitPosition) {}

  /// The shared index of the block loop is the number of the block.
  void emit();

private:
  LoopContext &context;
  LaneBuilder &lanes;
  llvm::function_ref<void()> emitPosition;

  void emitTransposed(const SharedLoop &loop, mlir::Value first);
  void emitInterleaved(const SharedLoop &loop, mlir::Value first);
  void emitSingly(const SharedLoop &loop, mlir::Value first, mlir::Value end);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_POSITIONBLOCK_H
