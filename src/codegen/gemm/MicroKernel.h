//===- MicroKernel.h - a block of a matrix product in registers -*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A function of its own, since its accumulators need every vector register:
//
//   NAME(left pointer of each row, left step, right pointer, right step, sums,
//        depth, continues, starts)
//
// adds, for each row and column, left[row][k] * right[k][column] over the depth
// to the sums, which start at zero, or at starts[row], unless `continues` is
// set. Steps are bytes from one depth to the next. The right operand may be
// narrower than the sums and is widened; of pairs, a depth is two bf16 of
// either operand side by side, and of bytes four.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_MICROKERNEL_H
#define ANABRANCH_CODEGEN_GEMM_MICROKERNEL_H

#include "codegen/gemm/ByteDots.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace anabranch {
namespace codegen {

struct MicroKernel {
  mlir::Type element; ///< f32, f64, i32 or i64
  int64_t lanes;      ///< of a vector
  int64_t rows;
  int64_t vectors;   ///< side by side in a row
  int64_t sumStride; ///< elements from one row of the sums to the next
  /// Steps in elements where they are the same in every call.
  std::optional<int64_t> leftStep, rightStep;
  mlir::Type right = {}; ///< bf16 or f16; null: as `element`
  bool pairs = false;    ///< both operands are pairs of bf16
  /// Both operands are words of four bytes, multiplied like this.
  std::optional<ByteDots> bytes = std::nullopt;

  /// Bytes of the right operand that are fetched before they are used; 0: none.
  int64_t ahead = 0;

  int64_t columns() const { return lanes * vectors; }

  /// Writes the function before `where`.
  mlir::func::FuncOp create(mlir::OpBuilder &builder, mlir::Operation *where,
                            llvm::StringRef name) const;

  struct Arguments {
    llvm::SmallVector<mlir::Value> left; ///< of each row
    mlir::Value leftStep;                ///< i64; may be null if fixed
    mlir::Value right;
    mlir::Value rightStep; ///< i64; may be null if fixed
    mlir::Value sums;
    mlir::Value depth;     ///< index
    mlir::Value continues; ///< i1
    mlir::Value starts;    ///< may be null if bytes need none
  };
  void call(LaneBuilder &lanes, mlir::func::FuncOp function,
            const Arguments &arguments) const;

private:
  void fill(mlir::OpBuilder &builder, mlir::func::FuncOp function) const;
  mlir::Value loadColumns(LaneBuilder &inner, mlir::Value pointer) const;
  bool needsStarts() const { return bytes && bytes->needsStarts(); }
  ByteDots::Ready readyColumns(LaneBuilder &inner, mlir::Value pointer) const;
  ByteDots::Ready readyFactor(LaneBuilder &inner, mlir::Value pointer) const;
  mlir::Value multiplyAdd(LaneBuilder &inner, const ByteDots::Ready &factor,
                          const ByteDots::Ready &columns,
                          mlir::Value sum) const;
};

/// sum + a * b of vectors, floats in one rounding.
mlir::Value multiplyAddVectors(LaneBuilder &lanes, mlir::Value a, mlir::Value b,
                               mlir::Value sum);

/// sum + a.even * b.even + a.odd * b.odd, of vectors whose elements are pairs
/// of bf16 in the width of the sums.
mlir::Value dotPairs(LaneBuilder &lanes, mlir::Value sum, mlir::Value a,
                     mlir::Value b);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_MICROKERNEL_H
