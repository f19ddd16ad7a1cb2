//===- AmxEmitter.h - a product's tile in AMX registers ---------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The loops of a tile whose blocks are products of AMX registers:
//
//   for each panel              | in the other order where the left operand is
//     for each block of depth   | larger than a cache (GemmBlocking)
//       for each block of rows
//         for each step of the depth
//           multiply, and evaluate some rows of the block before
//
// Registers and epilogue work side by side that way: the units that multiply
// registers are others than those of vectors. All blocks of a tile have equally
// many rows; the last one repeats rows of the one before where that takes it.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_AMXEMITTER_H
#define ANABRANCH_CODEGEN_GEMM_AMXEMITTER_H

#include "codegen/gemm/GemmEpilogue.h"
#include "codegen/gemm/RightPanels.h"
#include "codegen/microkernel/AmxBlock.h"
#include "codegen/operands/LeftOperand.h"

namespace anabranch {
namespace codegen {

class AmxEmitter {
public:
  AmxEmitter(GemmContext &gemm, LeftOperand &left, RightPanels &right,
             GemmEpilogue &epilogue);

  /// The parts of the scratch memory, and how many elements they have: sums as
  /// [panel][block][row][column], and the last words of either operand, padded
  /// with zeros: [row][word] and [word][column].
  struct Scratch {
    mlir::Value sums, leftTail, rightTail;
  };
  static int64_t sumElements(const GemmContext &gemm);
  static int64_t leftTailElements(const GemmContext &gemm);
  static int64_t rightTailElements(const GemmContext &gemm);

  /// The tile that the context is in. The left operand is packed.
  void emit(const Scratch &memory);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  RightPanels &right;
  GemmEpilogue &epilogue;
  Scratch memory;
  std::optional<AmxBlock> block;
  /// Of the tile: its rows, how many blocks they make, of how many rows each.
  mlir::Value rowCount, blockCount, blockRows;
  mlir::Value leftStride;

  /// A panel for a block of the depth.
  struct Depths {
    mlir::Value first, count;
    mlir::Value slot;  ///< of the panel in the sums
    mlir::Value right; ///< its words
    mlir::Value ahead; ///< words that are fetched meanwhile; may be null
  };
  /// Rows whose sums are complete, but not yet evaluated.
  struct Pending {
    mlir::Value count, row, column, sums;
  };
  /// The values of Pending as i64, or none where nothing ever waits.
  using Carried = mlir::SmallVector<mlir::Value>;
  Pending pendingOf(mlir::ValueRange carried);

  AmxShape shape() const;
  bool interleaves() const;
  mlir::Value leftAt(mlir::Value row, mlir::Value depth);
  void copyLeftTail();
  void clearRightTail();
  void copyRightTail(const Depths &depths);

  Carried
  forPanels(mlir::ValueRange carried,
            llvm::function_ref<Carried(mlir::Value, mlir::ValueRange)> body);
  Carried
  forDepths(mlir::ValueRange carried,
            llvm::function_ref<Carried(mlir::Value first, mlir::Value count,
                                       mlir::ValueRange)>
                body);
  Carried multiplyPanel(mlir::Value panel, mlir::Value first, mlir::Value count,
                        mlir::ValueRange carried);
  Carried multiplyBlock(const Depths &depths, mlir::Value number,
                        mlir::ValueRange carried);
  void multiplySteps(const Depths &depths, mlir::Value row, mlir::Value number,
                     mlir::ValueRange carried);
  void fetchAhead(const Depths &depths, mlir::Value step, mlir::Value number);
  void evaluate(const Pending &rows, mlir::Value first, mlir::Value end);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_AMXEMITTER_H
