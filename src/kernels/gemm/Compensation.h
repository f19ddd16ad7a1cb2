//===- Compensation.h - zero-point compensation of rows ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// If an instruction multiplies unsigned bytes by signed ones, 128 is added to
// the right operand (Int8Dot.h). The sums of a row then start at its zero-point
// compensation, -128 times the sum of its left elements. It is computed once
// for a tile.

#ifndef ANABRANCH_KERNELS_GEMM_COMPENSATION_H
#define ANABRANCH_KERNELS_GEMM_COMPENSATION_H

#include "kernels/operands/LeftOperand.h"

namespace anabranch {
namespace kernels {

class Compensation {
public:
  /// `memory` holds one number for each row of the tile.
  Compensation(GemmContext &gemm, LeftOperand &left, mlir::Value memory)
      : gemm(gemm), lanes(gemm.lanes), left(left), memory(memory) {}

  /// The elements of that memory; zero if no row needs compensation.
  static int64_t scratchElements(const GemmContext &gemm) {
    return gemm.layout.word.needsCompensation() ? gemm.layout.tiling.rowsPerTile
                                                : 0;
  }

  /// Whether the product's sums need compensation.
  bool isNeeded() const { return gemm.layout.word.needsCompensation(); }

  /// Computes the compensation of the tile's rows, if they need it.
  void compute();
  /// The address of a row's compensation, and the number there. Rows are
  /// counted from the tile's first.
  mlir::Value pointerTo(mlir::Value row);
  mlir::Value load(mlir::Value row);

private:
  /// Sums of several rows do not wait for each other.
  static constexpr int64_t rowsAtOnce = 4;
  /// Vectors whose lanes add up to 128 times the elements of each row.
  llvm::SmallVector<mlir::Value> excessOf(llvm::ArrayRef<mlir::Value> rows);

  GemmContext &gemm;
  LaneBuilder &lanes;
  LeftOperand &left;
  mlir::Value memory;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_COMPENSATION_H
