//===- GemmContext.h - what the emitters of a product share -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The state of a function of the kernel while its body is being written: the
// sizes of the product as values, and the current tile.

#ifndef ANABRANCH_KERNELS_OPERANDS_GEMMCONTEXT_H
#define ANABRANCH_KERNELS_OPERANDS_GEMMCONTEXT_H

#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"
#include "kernels/emit/Evaluator.h"
#include "kernels/emit/TypedMemory.h"

namespace anabranch {
namespace kernels {

class GemmContext {
public:
  GemmContext(const Contraction &contraction, const ProductLayout &layout,
              KernelFunction &function);

  const Contraction &contraction;
  const ProductLayout &layout;
  KernelFunction &function;
  LaneBuilder &lanes;
  /// Scratch memory, with elements of the accumulators' type.
  const TypedMemory memory;
  /// Set only in a tile function.
  Evaluator *evaluator = nullptr;

  //===-- The whole product ----------------------------------------------===//

  mlir::Value rowCount, batchCount, columnCount, depthCount;
  /// Numbers of panels of columns, of groups of a tile's panels, and of strips
  /// of rows.
  mlir::Value panelCount, groupCount, stripCount;

  mlir::Value tileCount();
  mlir::Value loopSize(unsigned loop);
  /// A number of depths, in words.
  mlir::Value words(mlir::Value depth);
  /// True if one block of the depth is the whole depth.
  bool isOneBlock() const;
  /// True if the depth is known to be a multiple of this number.
  bool depthIsMultipleOf(int64_t number) const;

  //===-- The tile -------------------------------------------------------===//

  struct Tile {
    mlir::SmallVector<mlir::Value> batch;
    mlir::Value firstRow, endRow, firstPanel, endPanel;
    mlir::Value firstColumn; ///< of the current panel
    /// In a grouped product: the row whose right operand is being read.
    mlir::Value placeRow;
  };
  Tile tile;

  void enterTile(mlir::Value number);
  void enterPanel(mlir::Value number);
  /// The end of the rows that blocks number from the tile's first row on: those
  /// of the tile, or of its patch.
  mlir::Value endOfRows();
  /// The end of the block of rows that begins at `row`.
  mlir::Value endOfBlock(mlir::Value row);
  /// Calls `body` for the rows of a copy that blocks read, and the row of the
  /// tile that each copies. Rows after the last one repeat it if blocks read
  /// all rows from one address.
  void forCopiedRows(
      llvm::function_ref<void(mlir::Value row, mlir::Value from)> body);

  /// A point of the contraction's iteration space. For a null row or lane the
  /// index is undefined; in a grouped product a null row means `tile.placeRow`.
  mlir::SmallVector<Lanes> point(mlir::Value row, Lanes column, Lanes depth);
  /// The same for a row with these positions in its loops.
  mlir::SmallVector<Lanes> point(mlir::ArrayRef<mlir::Value> row, Lanes column,
                                 Lanes depth);
  /// Splits a position over several loops, of which the last runs fastest.
  mlir::SmallVector<mlir::Value> delinearize(mlir::ArrayRef<unsigned> loops,
                                             mlir::Value position);
  /// The mask of the lanes, from `column` on, that are columns; null if all
  /// are. Columns are counted in units of `unit`.
  mlir::Value columnMask(mlir::Value column, int64_t unit);
  /// Calls `emit` for a panel whose columns all exist, and for a last one with
  /// fewer. If only a call knows which it is, emits both.
  void wholeOrLast(llvm::function_ref<void(bool whole)> emit);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_GEMMCONTEXT_H
