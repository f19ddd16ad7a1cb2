//===- MatrixBlock.h - blocks of sums in two by two matrices ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A matrix instruction multiplies two rows of the left operand by two columns
// of the right one, two words of the depth each:
//
//   left vector     right vector       vector of sums
//   a0 a1 | b0 b1   p0 p1 | q0 q1      a*p  a*q  b*p  b*q
//
// A block of sums has such a vector for each pair of rows and each pair of
// columns. In memory the sums are rows, so they are arranged before the loop
// and after it. Panels have the two words of a column side by side. If only the
// right operand is unsigned, it comes first in the instruction, and a vector of
// sums is a*p b*p a*q b*q.

#ifndef ANABRANCH_KERNELS_MICROKERNEL_MATRIXBLOCK_H
#define ANABRANCH_KERNELS_MICROKERNEL_MATRIXBLOCK_H

#include "kernels/emit/Lanes.h"

namespace anabranch {
namespace kernels {

class MatrixBlock {
public:
  using Product = native::Isa::MatrixProduct;

  /// The words of a column that are neighbours in a panel: those of one
  /// product.
  static constexpr int64_t words = 2;
  /// The lanes of a vector of sums.
  static constexpr int64_t lanes = 4;

  /// A block of an even number of rows, or of one.
  MatrixBlock(LaneBuilder &builder, Product product, bool rightComesFirst,
              int64_t rows, int64_t vectors)
      : builder(builder), product(product), rightComesFirst(rightComesFirst),
        rows(rows), vectors(vectors) {}

  /// The vectors of rows as matrices, and the reverse.
  llvm::SmallVector<mlir::Value> arrange(mlir::ValueRange sums) const;
  llvm::SmallVector<mlir::Value> rowsOf(mlir::ValueRange matrices) const;

  /// The matrices after two more words of the depth. `pointers` are those of
  /// the rows, `right` is that of the panel.
  llvm::SmallVector<mlir::Value> add(llvm::ArrayRef<mlir::Value> pointers,
                                     mlir::Value right,
                                     mlir::ValueRange matrices) const;

private:
  LaneBuilder &builder;
  Product product;
  bool rightComesFirst;
  int64_t rows, vectors;

  int64_t pairs() const { return (rows + 1) / 2; }
  mlir::Value leftPair(llvm::ArrayRef<mlir::Value> pointers,
                       int64_t pair) const;
  mlir::Value rightPair(mlir::Value right, int64_t pair) const;
  mlir::Value multiply(mlir::Value sum, mlir::Value left,
                       mlir::Value right) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_MICROKERNEL_MATRIXBLOCK_H
