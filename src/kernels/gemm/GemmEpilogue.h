//===- GemmEpilogue.h - what follows a product's sums -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GEMM_GEMMEPILOGUE_H
#define ANABRANCH_KERNELS_GEMM_GEMMEPILOGUE_H

#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

class GemmEpilogue {
public:
  explicit GemmEpilogue(GemmContext &gemm) : gemm(gemm), lanes(gemm.lanes) {}

  /// Evaluates and stores the kernel's results for the rows from `row` to
  /// before `endRow` and the context's panel. `sums` has [row][column].
  void emit(mlir::Value row, mlir::Value endRow, mlir::Value sums);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;

  using RowBody = llvm::function_ref<void(mlir::ArrayRef<mlir::Value> position,
                                          mlir::Value number)>;

  void forEachRow(mlir::Value first, mlir::Value end, RowBody body);
  /// Neighbours in a row, from a column of the product on.
  struct Vector {
    mlir::Value column;
    mlir::Value offset; ///< of their sums
    int64_t width;
    bool isWhole; ///< else columns after the product's last one are masked
  };
  void emitVector(mlir::ArrayRef<mlir::Value> row, const Vector &vector,
                  mlir::Value sums);
  void emitRow(mlir::ArrayRef<mlir::Value> row, mlir::Value width,
               mlir::Value at, mlir::Value sums);
  mlir::Value withoutParts(mlir::Value sum, mlir::ArrayRef<mlir::Value> row,
                           mlir::Value column);
  mlir::Value addInitial(mlir::Value sum, mlir::ArrayRef<Lanes> index);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_GEMMEPILOGUE_H
