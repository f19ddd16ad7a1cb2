//===- LeftOperand.h - the rows of a product's left operand -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The micro-kernel reads a row of the left operand word by word. An operand
// whose words are at equal distances in memory, or in runs that are, is read in
// place. Any other is copied once for the tile: [row][word], with the words of
// a row padded to whole vectors. For many rows, the copy is widened; where an
// instruction cannot load from any distance, it is interleaved too:
// [block][depth][row of the block]. A copy in parts (FloatParts.h) is
// [32 depths][part][row][16 words]. After it may be sums of elements.

#ifndef ANABRANCH_KERNELS_OPERANDS_LEFTOPERAND_H
#define ANABRANCH_KERNELS_OPERANDS_LEFTOPERAND_H

#include "kernels/operands/OperandReader.h"

namespace anabranch {
namespace kernels {

class LeftOperand {
public:
  /// `packed` is memory for the tile's copy.
  LeftOperand(GemmContext &gemm, mlir::Value packed);

  /// The scratch elements of the copy; zero if there is none.
  static mlir::Value scratchElements(GemmContext &gemm);

  /// Words of a row of the copy. If rows are interleaved, widened elements.
  static mlir::Value packedWords(GemmContext &gemm);

  /// Copies the rows of the tile, if the layout says so. If it has parts and
  /// blocks of the depth outside, `packParts` copies each of these blocks.
  void pack();
  void packParts(mlir::Value first, mlir::Value count);
  /// Bytes from one part of an element to the next.
  static int64_t partBytes(GemmContext &gemm);
  /// The sum of a row's elements that one scale of the right operand
  /// multiplies, in all lanes. `scaling` counts them within the block of the
  /// depth.
  mlir::Value sumOf(mlir::Value row, mlir::Value scaling);

  /// Whether the words of a row are consecutive.
  static bool stepIsUnit(const GemmContext &gemm);
  /// The address of a row of the product at a depth. In a patch, rows are
  /// numbered as in PatchShape, from the tile's first on. The step is null if
  /// it is one word. Of a row in runs it is that from run to run.
  OperandReader::Address at(mlir::Value row, mlir::Value depth);
  /// A vector of words, from `depth` on, of a row that is counted from the
  /// tile's first.
  mlir::Value words(mlir::Value row, mlir::Value depth, mlir::Value end,
                    bool whole);

private:
  mlir::Value partsAt(mlir::Value row, mlir::Value depth);
  mlir::Value packStep(mlir::Value row, mlir::Value depth, mlir::Value end);
  void packAndAdd(mlir::Value row, mlir::Value first, mlir::Value end);
  mlir::Value sumIndex(mlir::Value row, mlir::Value scaling);
  void packRows();
  void packBlocks();

  GemmContext &gemm;
  LaneBuilder &lanes;
  mlir::Value packed;
  OperandReader reader;
  /// The first depth of a copy in parts.
  mlir::Value firstDepth;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_LEFTOPERAND_H
