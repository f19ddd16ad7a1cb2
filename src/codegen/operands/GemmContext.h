//===- GemmContext.h - what the emitters of a product share -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// One function of a kernel is being written: here are the sizes of the product
// as values in that function, and which tile of it is being computed.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_OPERANDS_GEMMCONTEXT_H
#define ANABRANCH_CODEGEN_OPERANDS_GEMMCONTEXT_H

#include "codegen/contraction/GemmBlocking.h"
#include "codegen/emit/Evaluator.h"
#include "codegen/emit/TypedMemory.h"

namespace anabranch {
namespace codegen {

class GemmContext {
public:
  GemmContext(const Contraction &contraction, const GemmBlocking &blocking,
              KernelFrame &frame);

  const Contraction &contraction;
  const GemmBlocking &blocking;
  KernelFrame &frame;
  LaneBuilder &lanes;
  /// Scratch memory, whose elements are those of the accumulators.
  const TypedMemory memory;
  /// Set while a tile function is written.
  Evaluator *evaluator = nullptr;

  //===-- The whole product ----------------------------------------------===//

  mlir::Value rowCount, batchCount, columnCount, depthCount;
  /// Panels of columns, groups of as many panels as a tile has, strips of rows.
  mlir::Value panelCount, groupCount, stripCount;

  mlir::Value tileCount();
  mlir::Value loopSize(unsigned loop);
  /// Depths in words.
  mlir::Value words(mlir::Value depth);
  /// True if one block of the depth is all of it.
  bool isOneBlock() const;
  /// True if the depth is known to be a multiple of this number.
  bool depthIsMultipleOf(int64_t number) const;

  //===-- The tile -------------------------------------------------------===//

  struct Tile {
    mlir::SmallVector<mlir::Value> batch;
    mlir::Value firstRow, endRow, firstPanel, endPanel;
    mlir::Value firstColumn; ///< of the panel that is being computed
    /// Of a grouped product: the row whose right operand is being read.
    mlir::Value placeRow;
  };
  Tile tile;

  void enterTile(mlir::Value number);
  void enterPanel(mlir::Value number);

  /// A point of the contraction's iteration space; a null row or lane stays
  /// undefined. In a grouped product a null row is `tile.placeRow`.
  mlir::SmallVector<Lanes> point(mlir::Value row, Lanes column, Lanes depth);
  /// The lanes of a vector from `column` on that are columns; null if all are.
  /// Columns are counted in units of `unit`.
  mlir::Value columnMask(mlir::Value column, int64_t unit);
  /// Emits for a panel whose columns all exist, and for a last one that has
  /// fewer; for both where that is not known before the call.
  void wholeOrLast(llvm::function_ref<void(bool whole)> emit);

private:
  mlir::SmallVector<mlir::Value> delinearize(mlir::ArrayRef<unsigned> loops,
                                             mlir::Value position);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_OPERANDS_GEMMCONTEXT_H
