//===- GemmEmitter.h - the loops of a product's tile ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A tile is a strip of rows times one or several panels of columns:
//
//   pack the left operand's rows                     (LeftOperand)
//   for each panel
//     for each block of the depth
//       pack the right operand's panel               (RightPanels)
//       for each block of rows
//         multiply: accumulators in registers        (BlockMultiplier)
//         after the last depth: evaluate the epilogue on the accumulators
//
// A grouped product runs these loops for each group of rows that multiply one
// part of the right operand. A product of few rows has no blocks: it reads the
// right operand along its depths (RowDots) or its columns (RowSums). One in AMX
// registers has loops of its own (AmxEmitter). An operand that the micro-kernel
// can read in place is not packed. Packed operands consist of words of the
// accumulators' size (WordProduct.h).

#ifndef ANABRANCH_KERNELS_GEMM_GEMMEMITTER_H
#define ANABRANCH_KERNELS_GEMM_GEMMEMITTER_H

#include "kernels/gemm/AmxEmitter.h"
#include "kernels/gemm/BlockMultiplier.h"

namespace anabranch {
namespace kernels {

class GemmEmitter {
public:
  explicit GemmEmitter(GemmContext &gemm)
      : gemm(gemm), lanes(gemm.lanes), epilogue(gemm) {}

  /// The scratch bytes that a tile needs.
  mlir::Value scratchBytes();

  void emitTile(Evaluator &evaluator, mlir::Value scratch, mlir::Value tile);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  GemmEpilogue epilogue;

  /// The parts of the scratch memory.
  struct Scratch {
    mlir::Value sums, compensation, panel, left;
    mlir::Value leftTail, rightTail; ///< AmxEmitter.h
  };
  Scratch layOut(mlir::Value scratch);
  void findPlace();
  mlir::Value placeOf(mlir::Value row);
  void forEachGroup(llvm::function_ref<void()> body);
  void emitRows(const Scratch &memory);
  int64_t sumElements() const;
  int64_t compensationElements() const;
  int64_t panelElements() const;

  void multiplyPanel(BlockMultiplier &multiplier, RightPanels &right,
                     mlir::Value sums);
  void multiplyDepths(BlockMultiplier &multiplier, RightPanels &right,
                      mlir::Value sums, mlir::Value first, mlir::Value count);
  mlir::Value endOfRows();
  mlir::Value endOfBlock(mlir::Value row);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_GEMMEMITTER_H
