//===- Contraction.h - what a contraction kernel computes -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A matrix product in the general sense: result[batch, row, column] is the sum
// over depth of left[batch, row, depth] * right[batch, depth, column]. Both
// operands may have producers (prologue) and the results of the kernel are
// pointwise functions of the product (epilogue). Nothing is emitted here, so
// that the tile function and the plan function agree.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_CONTRACTION_H
#define ANABRANCH_CODEGEN_CONTRACTION_CONTRACTION_H

#include "codegen/contraction/ImageWindows.h"
#include "codegen/emit/Epilogue.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <string>

namespace anabranch {
namespace codegen {

/// The layout that constants are packed into when a package is loaded:
/// [batch..., ceil(columns / width), ceil(depths / kPack), width, kPack],
/// without the last dimension if `kPack` is one, and zero where there is no
/// element.
struct Panels {
  int64_t width;
  int64_t kPack; ///< the K-pack (VNNI) factor
};

/// How one operand is read.
struct ContractionOperand {
  unsigned number;                 ///< operand of the generic
  mlir::Operation *cast = nullptr; ///< widening in the body, or null
  /// The element type in memory if it is one argument seen through views, so
  /// that reading an element again costs no more than a load; else null.
  mlir::Type memory;
  /// True if each step along the depth moves by the same number of bytes.
  bool isRegular = false;
  /// True if each step from row to row does so too.
  bool rowsAreRegular = false;
  /// The loop whose neighbours are neighbours in memory, if any.
  std::optional<unsigned> unitLoop;
  /// True if an index is a sum of column and depth: a window that moves.
  bool isWindow = false;
  /// Windows of this many columns are neighbours; 0: those of all columns are.
  int64_t windowRow = 0;
  /// The points of a window: over this many depths the index of each dimension
  /// grows by a constant, wherever they begin. 0: there is no such number.
  int64_t windowPoints = 0;
  /// Set if the argument lies in panels already.
  std::optional<Panels> panels;
  /// The part of a larger tensor at a place that other tensors hold: the loops
  /// that the place depends on. Empty if the operand is a whole tensor.
  llvm::SmallVector<unsigned> placeLoops;
  bool isGathered = false;
  /// How many places there are, if that is known.
  std::optional<int64_t> places;
};

struct Contraction {
  mlir::func::FuncOp source;
  mlir::linalg::GenericOp op;
  /// Loops of `op`.
  llvm::SmallVector<unsigned> batch, rows;
  unsigned column = 0;
  unsigned depth = 0;
  ContractionOperand left, right;
  /// Set if the left operand is windows of an image.
  std::optional<ImageWindows> windows;
  mlir::Type element; ///< of the accumulators: f32, f64, i32 or i64
  bool startsAtZero = true;
  /// Whether each row has a right operand of its own, the part of a larger
  /// tensor at the row's place. Rows that follow each other may share one.
  bool isGrouped = false;
  llvm::SmallVector<Epilogue, 1> epilogues;

  /// The size of a loop if it is known now.
  std::optional<int64_t> knownSize(unsigned loop) const;
  std::optional<int64_t> knownSize(mlir::ArrayRef<unsigned> loops) const;
  /// Rows that multiply one right operand, as far as that can be foreseen: of a
  /// grouped product the mean.
  std::optional<int64_t> rowsTogether() const;

  /// The type of both operands if both are widened from it, else null.
  mlir::Type narrow() const;
  /// True if signed bytes are multiplied and summed in i32.
  bool multipliesInt8() const;

  /// The loops and operands of a generic, without how the operands are read, or
  /// none and why it is no contraction.
  static std::optional<Contraction> match(mlir::linalg::GenericOp op,
                                          std::string &why);
  /// The contraction of a kernel function, or none and why there is none.
  static std::optional<Contraction> find(mlir::func::FuncOp source,
                                         std::string &why);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_CONTRACTION_H
