//===- Contraction.h - what a contraction kernel computes -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A matrix product in the general sense: result[batch, row, column] is the sum
// over depth of left[batch, row, depth] * right[batch, depth, column]. Both
// operands may have producers (prologue), and the results of the kernel are
// pointwise functions of the product (epilogue). Nothing is emitted here: the
// tile function and the plan function read the same Contraction, and so agree.

#ifndef ANABRANCH_KERNELS_CONTRACTION_CONTRACTION_H
#define ANABRANCH_KERNELS_CONTRACTION_CONTRACTION_H

#include "kernels/contraction/ImageWindows.h"
#include "kernels/emit/Epilogue.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

#include <string>

namespace anabranch {
namespace kernels {

/// The layout of constants that loading a package packs: [batch...,
/// ceil(columns / width), ceil(depths / kPack), width, kPack]. The last
/// dimension is left out if `kPack` is one. Places without an element hold
/// zero.
struct Panels {
  int64_t width;
  int64_t kPack; ///< the K-pack (VNNI) factor
};

/// How one operand is read.
struct ContractionOperand {
  unsigned number;                 ///< operand of the generic
  mlir::Operation *cast = nullptr; ///< widening in the body, or null
  /// Whether the widening takes the elements as unsigned.
  bool isUnsigned() const {
    return mlir::isa_and_nonnull<mlir::arith::ExtUIOp>(cast);
  }
  /// The element type in memory, if the operand is one argument seen through
  /// views: reading an element again then costs only a load. Else null.
  mlir::Type memory;
  /// True if each step along the depth moves by the same number of bytes.
  bool isRegular = false;
  /// True if each step from row to row moves by the same number of bytes.
  bool rowsAreRegular = false;
  /// Over so many depths the elements of a row are neighbours, from each
  /// multiple of this number on, as those of one head of attention are. 0: of
  /// all depths, or of none.
  int64_t depthRun = 0;
  /// The loop along which neighbours are neighbours in memory, if any.
  std::optional<unsigned> unitLoop;
  /// True if an index is a sum of column and depth, as for a moving window.
  bool isWindow = false;
  /// Windows of this many columns are neighbours. 0: the windows of all columns
  /// are.
  int64_t windowRow = 0;
  /// The points of a window: over this many depths the index of each dimension
  /// grows by a constant, wherever they begin. 0: there is no such number.
  int64_t windowPoints = 0;
  /// The layout of an argument that is in panels; none for others.
  std::optional<Panels> panels;
  /// The loops on which the place of a gathered operand depends. Empty if the
  /// operand is a whole tensor.
  llvm::SmallVector<unsigned> placeLoops;
  bool isGathered = false;
  /// The number of places, if it is known.
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
  /// The windows, if the left operand is windows of an image.
  std::optional<ImageWindows> windows;
  mlir::Type element; ///< of the accumulators: f32, f64, i32 or i64
  bool startsAtZero = true;
  /// Whether each row has a right operand of its own: the part of a larger
  /// tensor at the row's place. Neighbouring rows may share one.
  bool isGrouped = false;
  llvm::SmallVector<Epilogue, 1> epilogues;

  /// The size of a loop, if it is static.
  std::optional<int64_t> knownSize(unsigned loop) const;
  std::optional<int64_t> knownSize(mlir::ArrayRef<unsigned> loops) const;
  /// The expected number of rows that multiply one right operand, if it is
  /// known. For a grouped product it is the mean.
  std::optional<int64_t> rowsTogether() const;

  /// The type from which both operands are widened; null if they are not, or
  /// differ.
  mlir::Type narrow() const;
  /// True if the product multiplies bytes, of which one operand's may be
  /// unsigned, and sums them in i32.
  bool multipliesInt8() const;

  /// The loops and operands of a generic, without how the operands are read.
  /// None, and why, if it is no contraction.
  static std::optional<Contraction> match(mlir::linalg::GenericOp op,
                                          std::string &why);
  /// The contraction of a kernel function. None, and why, if it has none that a
  /// kernel can compute.
  static std::optional<Contraction> find(mlir::func::FuncOp source,
                                         std::string &why);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_CONTRACTION_H
