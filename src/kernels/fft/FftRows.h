//===- FftRows.h - which rows a tile of a transform has ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A row runs along the transformed dimension. Where this is the last dimension,
// a tile has neighbouring rows. Where it is another one, rows that are
// neighbours in the last dimension lie side by side: a tile has some of them,
// at several positions in the other dimensions if the last one is short.

#ifndef ANABRANCH_KERNELS_FFT_FFTROWS_H
#define ANABRANCH_KERNELS_FFT_FFTROWS_H

#include "ir/Anabranch.h"
#include "kernels/footprint/TileFootprint.h"

namespace anabranch {
namespace kernels {

class FftRows {
public:
  FftRows(ir::FftOp op, KernelFunction &function);

  ir::FftOp op;
  KernelFunction &function;
  LaneBuilder &lanes;
  /// Whether the last dimension is another one than that of the transform.
  bool isAcross;
  mlir::Type element;
  mlir::Value length;             ///< of the transform
  mlir::Value fromCount, toCount; ///< elements of a row that are read, written
  mlir::Value capacity;           ///< rows that a tile has room for

  mlir::Value tileCount();
  /// Operands and results: one tensor for each part.
  mlir::SmallVector<mlir::Value> operands();
  unsigned resultParts() { return op.getToReal() ? 1 : 2; }
  /// Elements of 64 bytes, to which the runtime has rows rounded up.
  int64_t unit() const { return 64 / elementBytes(element); }
  mlir::Value roundedUp(mlir::Value count);

  /// The rows of one tile: `count` positions of the outer dimensions, and
  /// `width` neighbours at each; one if rows run along the last dimension.
  struct Tile {
    mlir::Value first, count;
    mlir::Value firstInner, width;
  };
  Tile tileAt(mlir::Value number);

  /// The index of an element: at an outer position, at `k` along the row, and
  /// at a position in the last dimension. With `part` it is that of a result of
  /// two parts.
  mlir::SmallVector<Lanes> index(mlir::Value outer, Lanes k, Lanes inner,
                                 std::optional<int64_t> part = {});
  /// The elements that a tile reads of an operand, or writes of the result.
  mlir::SmallVector<IndexRange> ranges(RangeBuilder &ranges, const Tile &tile,
                                       mlir::Value tensor);

private:
  int64_t rank, dimension;
  mlir::SmallVector<int64_t> outerDims;
  mlir::SmallVector<mlir::Value> outerSizes;
  mlir::Value outer, inner;         ///< positions altogether
  mlir::Value outerStep, innerStep; ///< positions of a whole tile
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_FFT_FFTROWS_H
