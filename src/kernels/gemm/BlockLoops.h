//===- BlockLoops.h - loops over blocks in vector registers -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   pack the left operand's rows                     (LeftOperand)
//   for each panel
//     for each block of the depth
//       pack the right operand's panel               (RightPanels)
//       for each block of rows
//         multiply: accumulators in registers        (BlockMultiplier)
//         after the last depth: evaluate the epilogue on the accumulators
//
// An operand that the micro-kernel can read in place is not packed. Packed
// operands consist of words of the accumulators' size (WordProduct.h).

#ifndef ANABRANCH_KERNELS_GEMM_BLOCKLOOPS_H
#define ANABRANCH_KERNELS_GEMM_BLOCKLOOPS_H

#include "kernels/gemm/BlockMultiplier.h"
#include "kernels/gemm/GemmEpilogue.h"
#include "kernels/gemm/ProductPlan.h"
#include "kernels/operands/RightPanels.h"

namespace anabranch {
namespace kernels {

class BlockLoops {
public:
  /// A right operand in panels is fetched so many bytes ahead.
  BlockLoops(GemmContext &gemm, int64_t bytesAhead)
      : gemm(gemm), lanes(gemm.lanes), epilogue(gemm), bytesAhead(bytesAhead) {}

  /// The elements of scratch memory beside the left operand's.
  static int64_t scratchElements(const GemmContext &gemm);

  /// Emits rows of the context's tile that share a right operand.
  void emit(ScratchMemory memory);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  GemmEpilogue epilogue;
  int64_t bytesAhead;

  void multiplyPanel(BlockMultiplier &multiplier, RightPanels &right,
                     mlir::Value sums);
  void multiplyDepths(BlockMultiplier &multiplier, RightPanels &right,
                      mlir::Value sums, mlir::Value first, mlir::Value count);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_BLOCKLOOPS_H
