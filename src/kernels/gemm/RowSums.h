//===- RowSums.h - few rows times rows of memory ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// With few rows, reading the right operand once takes nearly all the time. If
// its columns are neighbours, a processor prefetches it only along its rows. So
// each row is read as far as the tile reaches, times an element of the left
// operand, and the sums of all columns wait in the first-level cache. Some
// depths at a time make these loads and stores few.

#ifndef ANABRANCH_KERNELS_GEMM_ROWSUMS_H
#define ANABRANCH_KERNELS_GEMM_ROWSUMS_H

#include "kernels/operands/LeftOperand.h"

namespace anabranch {
namespace kernels {

class RowSums {
public:
  RowSums(GemmContext &gemm, LeftOperand &left)
      : gemm(gemm), lanes(gemm.lanes), left(left),
        right(gemm, gemm.contraction.right) {}

  /// The elements of a tile's scratch memory: its sums, and those of a part of
  /// the depth.
  static int64_t sumElements(const GemmContext &gemm);

  /// Computes the sums of the tile's rows and columns: [row][column]. `sums` is
  /// the tile's scratch memory, and they come first in it.
  void multiply(mlir::Value sums);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  OperandReader right;

  int64_t depthsAtOnce() const;
  mlir::Value tileColumns();
  void forEachVector(llvm::function_ref<void(mlir::Value place)> body);
  void clear(mlir::Value sums);
  void addPart(mlir::Value first, mlir::Value end, mlir::Value sums);
  void addDepths(mlir::Value depth, int64_t count, mlir::Value sums);
  mlir::Value leftElement(int64_t row, mlir::Value depth);
  mlir::Value rightElements(mlir::Value column, mlir::Value depth,
                            mlir::Value mask);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_ROWSUMS_H
