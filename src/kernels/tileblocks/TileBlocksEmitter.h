//===- TileBlocksEmitter.h - a product's tile in tile registers -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The loops of a tile whose blocks are products of tile registers:
//
//   for each panel              | in the other order where the left operand is
//     for each block of depth   | larger than a cache (TileBlocking)
//       for each block of rows
//         for each step of the depth
//           multiply, and evaluate some rows of a block before
//
// Tile products and the epilogue overlap in this way, since tile units and
// vector units are different. All blocks of a tile have the same number of
// rows. If necessary, the last block repeats rows of the one before.

#ifndef ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKSEMITTER_H
#define ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKSEMITTER_H

#include "kernels/gemm/GemmEpilogue.h"
#include "kernels/microkernel/TileBlock.h"
#include "kernels/operands/LeftOperand.h"
#include "kernels/operands/PartPanels.h"
#include "kernels/operands/RightPanels.h"
#include "kernels/tileblocks/GroupSums.h"

namespace anabranch {
namespace kernels {

class TileBlocksEmitter {
public:
  /// How a block fetches the right operand ahead: so many lines in each step,
  /// so many bytes ahead. Zero bytes: lines of the next panel.
  struct Fetch {
    int64_t lines = 0, bytesAhead = 0;
  };
  TileBlocksEmitter(GemmContext &gemm, LeftOperand &left, RightPanels &right,
                    Fetch fetch)
      : gemm(gemm), lanes(gemm.lanes), left(left), right(right), epilogue(gemm),
        fetch(fetch) {}

  /// The parts of the scratch memory, and their numbers of elements. Sums are
  /// [panel][block][row][column], and after them those of groups. The last
  /// words of each operand, padded with zeros, are [row][word] and
  /// [word][column].
  struct Scratch {
    mlir::Value sums, leftTail, rightTail;
  };
  static int64_t sumElements(const GemmContext &gemm);
  static int64_t leftTailElements(const GemmContext &gemm);
  static int64_t rightTailElements(const GemmContext &gemm);

  /// Emits the context's tile. The left operand must be packed.
  void emit(const Scratch &memory);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  RightPanels &right;
  GemmEpilogue epilogue;
  Fetch fetch;
  Scratch memory;
  std::optional<TileBlock> block;
  /// The tile's rows, its blocks, and the rows of each block.
  mlir::Value rowCount, blockCount, blockRows;
  mlir::Value leftStride;
  /// If the right operand is a weight of few bits.
  std::optional<QuantizedOperand> weight;
  std::optional<GroupSums> groups;

  /// A panel for one block of the depth.
  struct Depths {
    mlir::Value panel, first, count;
    mlir::Value slot;  ///< index of the panel in the sums
    mlir::Value right; ///< its words
    mlir::Value ahead; ///< words to fetch meanwhile; may be null
    /// The panel to fill meanwhile, if panels are filled ahead.
    std::optional<PartPanels::Ahead> next;
  };
  /// Rows of a block. Those of `Carried` are complete, but not evaluated.
  struct Rows {
    mlir::Value count, row, column, sums;
  };
  /// The values of Rows as i64, or none if no rows ever wait.
  using Carried = mlir::SmallVector<mlir::Value>;
  Rows pendingOf(mlir::ValueRange carried);
  Rows rowsOf(const Depths &depths, mlir::Value number);
  mlir::Value repeatedRows(mlir::Value number);
  Rows withoutFirst(const Rows &rows, mlir::Value count);
  bool defers() const;
  mlir::Value promptRows(const Rows &rows);
  Rows deferredRows(const Depths &depths, mlir::Value number);
  Rows rowsDuring(const Depths &depths, mlir::Value number,
                  mlir::ValueRange carried);

  TileBlockShape shape() const;
  bool interleaves() const;
  bool hasPackedParts() const;
  TileBlock::Parts parts() const;
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
  void multiplyGroups(const Depths &depths, mlir::Value row,
                      mlir::Value results);
  void multiplyStep(const Depths &depths, mlir::Value row, mlir::Value depth);
  void fillFirst();
  void fillAhead(Depths &depths, mlir::Value panel);
  void fetchAhead(const Depths &depths, mlir::Value step, mlir::Value number);
  void fetchSums(const Depths &depths, mlir::Value step, mlir::Value number);
  void evaluate(const Rows &rows, mlir::Value first, mlir::Value end);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_TILEBLOCKS_TILEBLOCKSEMITTER_H
