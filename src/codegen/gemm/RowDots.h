//===- RowDots.h - a product of few rows ------------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// With few rows, reading the right operand once takes nearly all the time, so
// it is not copied. If its depths are neighbours, each element of the result is
// a dot product along the depth: vectors of partial sums, which are added up at
// the end.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_ROWDOTS_H
#define ANABRANCH_CODEGEN_GEMM_ROWDOTS_H

#include "codegen/gemm/Compensation.h"

namespace anabranch {
namespace codegen {

class RowDots {
public:
  RowDots(GemmContext &gemm, LeftOperand &left, Compensation &compensation)
      : gemm(gemm), lanes(gemm.lanes), left(left), compensation(compensation),
        right(gemm, gemm.contraction.right) {}

  /// Computes the sums of the tile's rows and of the context's panel:
  /// [row][column].
  void multiply(mlir::Value sums);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  Compensation &compensation;
  OperandReader right;

  mlir::SmallVector<mlir::Value> dots(mlir::Value column);
  mlir::SmallVector<mlir::Value> addDepths(mlir::Value column,
                                           mlir::Value depth, bool whole,
                                           mlir::ValueRange sums);
  void fetch(mlir::Value column, mlir::Value depth);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_ROWDOTS_H
