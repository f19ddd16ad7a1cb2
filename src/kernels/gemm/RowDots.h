//===- RowDots.h - a product of few rows ------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// With few rows, reading the right operand once takes nearly all the time, so
// it is not copied. If its depths are neighbours, each element of the result is
// a dot product along the depth: vectors of partial sums, which are added up at
// the end.

#ifndef ANABRANCH_KERNELS_GEMM_ROWDOTS_H
#define ANABRANCH_KERNELS_GEMM_ROWDOTS_H

#include "kernels/gemm/Compensation.h"

namespace anabranch {
namespace kernels {

class RowDots {
public:
  /// If it `fetchesAhead`, the columns after the next ones are prefetched.
  RowDots(GemmContext &gemm, LeftOperand &left, Compensation &compensation,
          bool fetchesAhead)
      : gemm(gemm), lanes(gemm.lanes), left(left), compensation(compensation),
        right(gemm, gemm.contraction.right), fetchesAhead(fetchesAhead) {}

  /// Computes the sums of the tile's rows and of the context's panel:
  /// [row][column].
  void multiply(mlir::Value sums);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  Compensation &compensation;
  OperandReader right;
  bool fetchesAhead;

  int64_t columnsAtOnce() const;
  mlir::SmallVector<mlir::Value> dots(mlir::Value column);
  mlir::SmallVector<mlir::Value> addDepths(mlir::Value column,
                                           mlir::Value depth, bool whole,
                                           mlir::ValueRange sums);
  void fetch(mlir::Value column, mlir::Value depth);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_ROWDOTS_H
