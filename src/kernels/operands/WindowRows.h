//===- WindowRows.h - rows that are windows of an image ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Copies the windows of an image (ImageWindows.h). A few operations find the
// run of a tap, and plain vectors copy it. A tap in the padding is read from
// a run of padding, so that the padded image is never stored.

#ifndef ANABRANCH_KERNELS_OPERANDS_WINDOWROWS_H
#define ANABRANCH_KERNELS_OPERANDS_WINDOWROWS_H

#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

class WindowRows {
public:
  /// None if the left operand is not windows of an image.
  static std::optional<WindowRows> of(GemmContext &gemm);

  /// Scratch elements of padding that `pack` needs; as many may be written
  /// after the copy.
  int64_t paddingElements() const;
  int64_t elementsAfter() const;

  /// Copies the rows of the tile: [row][word], or blocks of interleaved rows,
  /// as the layout says (LeftOperand.h). A row is `stride` elements long; in
  /// blocks, a depth is.
  void pack(mlir::Value packed, mlir::Value stride, mlir::Value outside);

private:
  explicit WindowRows(GemmContext &gemm)
      : gemm(gemm), lanes(gemm.lanes), windows(*gemm.contraction.windows),
        taps(windows.taps), run(windows.run) {
    mergeLastTaps();
  }

  void mergeLastTaps();

  using Point = mlir::SmallVector<Lanes>;
  Point pointOf(mlir::Value row);
  mlir::Value runAt(const Point &row, mlir::Value tap, mlir::Value outside);
  mlir::Value loadRun(mlir::Value run, mlir::Value first, int64_t width,
                      bool whole);
  void forRun(int64_t width, bool mayReadAfter,
              llvm::function_ref<void(mlir::Value first, bool whole)> body);
  void forTaps(llvm::function_ref<void(mlir::Value tap, bool isLast)> body);
  bool nextTapFollows(int64_t width) const;
  void fillPadding(mlir::Value outside);
  void packRow(const Point &row, mlir::Value packed, mlir::Value end,
               mlir::Value outside);
  void packBlock(mlir::ArrayRef<Point> rows, mlir::Value packed,
                 mlir::Value outside);
  mlir::Value moved(mlir::Value pointer, mlir::Value elements,
                    mlir::Type type) const;

  GemmContext &gemm;
  LaneBuilder &lanes;
  const ImageWindows &windows;
  mlir::SmallVector<int64_t> taps;
  int64_t run; ///< the last taps merged into it
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_WINDOWROWS_H
