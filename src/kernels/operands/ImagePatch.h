//===- ImagePatch.h - the part of an image that a tile reads ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_OPERANDS_IMAGEPATCH_H
#define ANABRANCH_KERNELS_OPERANDS_IMAGEPATCH_H

#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

/// Copies the points of an image that the windows of a tile read, and finds
/// windows in the copy (PatchShape.h). Only for layouts with a patch.
class ImagePatch {
public:
  explicit ImagePatch(GemmContext &gemm)
      : gemm(gemm), lanes(gemm.lanes), windows(*gemm.contraction.windows),
        shape(*gemm.layout.left.patch), axes(*windows.axes) {}

  /// The scratch elements of the copy, in the accumulators' type.
  int64_t scratchElements() const;
  /// Bytes from one part of an element to the next: each part has a copy.
  int64_t partBytes() const;
  void pack(mlir::Value patch);
  /// The address, in the copy, of a depth of a window of the tile.
  mlir::Value at(mlir::Value patch, mlir::Value number, mlir::Value depth);
  /// How many elements a run is after the first run of its window. The builder
  /// may be that of another function than the tile's.
  static mlir::Value offsetOfRun(LaneBuilder &lanes,
                                 const ImageWindows::Axes &axes,
                                 const PatchShape &shape, mlir::Value run);

private:
  GemmContext &gemm;
  LaneBuilder &lanes;
  const ImageWindows &windows;
  const PatchShape &shape;
  const ImageWindows::Axes &axes;

  mlir::Type imageElement() const;
  mlir::Type copyElement() const;
  mlir::Value moved(mlir::Value pointer, mlir::Value elements) const;
  mlir::Value movedInCopy(mlir::Value pointer, mlir::Value elements) const;
  mlir::Value pointStride();
  mlir::Value placeOf(const ImageWindows::Axis &axis, mlir::Value first,
                      int64_t phase);
  void packOrFill(const ImageWindows::Axis &axis, mlir::Value place,
                  mlir::Value to, int64_t elements,
                  llvm::function_ref<void()> pack);
  void packSlice(mlir::Value image, mlir::Value patch, mlir::Value firstRow);
  void packRow(mlir::Value from, mlir::Value to, int64_t phase);
  void packNeighbours(mlir::Value from, mlir::Value to);
  void packPoints(mlir::Value from, mlir::Value to, int64_t phase);
  void copyPoints(mlir::Value from, mlir::Value to, int64_t points);
  void padPoints(mlir::Value from, mlir::Value to, mlir::Value first,
                 int64_t count);
  void
  forVectors(int64_t elements,
             llvm::function_ref<void(mlir::Value at, mlir::Value mask)> body);
  void store(mlir::Value vector, mlir::Value to, mlir::Value at,
             mlir::Value mask);
  void copy(mlir::Value from, mlir::Value to, int64_t elements);
  void copyParts(mlir::Value from, mlir::Value to, int64_t elements);
  void fillPadding(mlir::Value to, int64_t elements);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_OPERANDS_IMAGEPATCH_H
