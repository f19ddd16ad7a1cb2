//===- TransposedBlock.h - positions with transposed loads ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_TRANSPOSEDBLOCK_H
#define ANABRANCH_CODEGEN_LOOPS_TRANSPOSEDBLOCK_H

#include "codegen/loops/LoopContext.h"

namespace anabranch {
namespace codegen {

/// Runs `width` positions of the group's block loop for one vector of lanes.
/// The group's transposed loads are loaded as whole vectors along the block and
/// transposed in registers; `emitPosition` writes the nests for one position.
class TransposedBlock {
public:
  TransposedBlock(LoopContext &context, llvm::function_ref<void()> emitPosition)
      : context(context), lanes(context.lanes), emitPosition(emitPosition) {}

  /// The shared index of the block loop is the number of the block.
  void emit();

private:
  LoopContext &context;
  LaneBuilder &lanes;
  llvm::function_ref<void()> emitPosition;

  void emitWhole(const SharedLoop &loop, mlir::Value first);
  void emitSingly(const SharedLoop &loop, mlir::Value first, mlir::Value end);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_TRANSPOSEDBLOCK_H
