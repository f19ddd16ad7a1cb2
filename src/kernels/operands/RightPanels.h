//===- RightPanels.h - panels of a product's right operand ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel reads a panel of the right operand: [word][column], with the
// columns of a panel side by side in memory. A panel with this layout in memory
// is read in place. Any other is copied for each block of the depth, with the
// elements of a word side by side.

#ifndef ANABRANCH_KERNELS_OPERANDS_RIGHTPANELS_H
#define ANABRANCH_KERNELS_OPERANDS_RIGHTPANELS_H

#include "kernels/operands/OperandReader.h"

namespace anabranch {
namespace kernels {

class RightPanels {
public:
  /// `packed` is memory for a copy.
  RightPanels(GemmContext &gemm, mlir::Value packed)
      : gemm(gemm), lanes(gemm.lanes), packed(packed),
        reader(gemm, gemm.contraction.right) {}

  /// The context's panel, for `count` depths from `first` on. It is copied if
  /// the layout says so. The step is null if the micro-kernel knows it.
  OperandReader::Address prepare(mlir::Value first, mlir::Value count);

  /// The scratch elements of a copy; zero if there is none.
  static int64_t scratchElements(const GemmContext &gemm);
  /// Whether only a call knows if tiles copy codes as pairs, and whether the
  /// current tile does: its blocks after the first save the lookups.
  static bool mayCopyCodes(const GemmContext &gemm);
  static mlir::Value copiesCodes(GemmContext &gemm);
  /// The memory for copies.
  mlir::Value memory() const { return packed; }
  /// The address of a depth of the context's panel, if the operand is in
  /// panels.
  mlir::Value sourceOf(mlir::Value depth) {
    return sourceAt(depth, /*withStep=*/false).pointer;
  }

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  mlir::Value packed;
  OperandReader reader;
  /// The block of the depth that is being copied.
  mlir::Value firstDepth, endDepth, depthCount;

  void forVectors(llvm::function_ref<void(mlir::ArrayRef<mlir::Value> columns,
                                          mlir::ArrayRef<mlir::Value> masks)>
                      body);
  void packColumns();
  void packPaddedChannels();
  void packTransposed();
  void splitPanel();
  void packWindows();
  void packWindowRow(mlir::Value column, mlir::Value stop);
  void packPiece(mlir::Value column, mlir::Value mask);
  void clear();
  void clearAfter();

  OperandReader::Address sourceAt(mlir::Value depth, bool withStep);
  mlir::Value codesAt(mlir::Value depth);
  mlir::Value codesOrPairs();
  mlir::Value offsetOf(mlir::Value depth);
  mlir::Value wordsAt(Lanes column, mlir::Value depth, mlir::Value mask);
  mlir::Value packedWordsAt(Lanes column, mlir::Value depth);
  mlir::Value someWordsAt(Lanes column, mlir::Value depth, int64_t count);
  void forEachWord(llvm::function_ref<void(mlir::Value depth)> body);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_RIGHTPANELS_H
