//===- QuantizedMatrixKernel.h - quantised products of matrices -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDMATRIXKERNEL_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDMATRIXKERNEL_H

#include "kernels/microkernel/MatrixBlock.h"
#include "kernels/quantized/QuantizedMicroKernel.h"

namespace anabranch {
namespace kernels {

/// Multiplies pairs of digits by pairs of columns: a row with two digits is a
/// pair. An instruction then makes twice as many products as a dot product.
class QuantizedMatrixKernel final : public QuantizedMicroKernel {
public:
  using QuantizedMicroKernel::QuantizedMicroKernel;

private:
  /// The matrices of a pair of digits, for each product that chunkDepths make.
  using DigitWords = llvm::SmallVector<mlir::Value, 2>;
  /// A vector of columns, one of the words of chunkDepths, and the first or the
  /// last two columns.
  struct Place {
    int64_t vector, word, half;
  };

  bool areNibbles() const { return context.weight.layout.pairsColumns(); }
  /// Vectors of columns whose integers share bytes.
  int64_t sharing() const { return areNibbles() ? 2 : 1; }

  /// Digits of all rows, and pairs of them.
  int64_t digitRows() const { return blocking.rows * blocking.digits.count; }
  int64_t pairs() const { return (digitRows() + 1) / 2; }
  int64_t stepsAtOnce() const;
  mlir::SmallVector<mlir::Value> addSteps(LaneBuilder &lanes, mlir::Value first,
                                          mlir::Value end,
                                          mlir::ValueRange sums) override;
  mlir::SmallVector<mlir::Value> addChunk(LaneBuilder &lanes, mlir::Value step,
                                          mlir::ValueRange matrices);
  mlir::SmallVector<mlir::Value> columnsOf(LaneBuilder &lanes, mlir::Value line,
                                           Place at);
  mlir::SmallVector<mlir::Value> joinColumns(LaneBuilder &lanes,
                                             mlir::ValueRange sums);
  mlir::SmallVector<mlir::Value> partColumns(LaneBuilder &lanes,
                                             mlir::ValueRange sums);
  DigitWords digitsOf(LaneBuilder &lanes, mlir::Value depth, int64_t pair);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDMATRIXKERNEL_H
