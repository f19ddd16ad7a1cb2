//===- ImageWindows.h - an operand that is windows of an image --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The left operand of a convolution whose channels are last. A row is the
// window of one output point. Its depths are runs of neighbours in memory, one
// for each tap.

#ifndef ANABRANCH_KERNELS_CONTRACTION_IMAGEWINDOWS_H
#define ANABRANCH_KERNELS_CONTRACTION_IMAGEWINDOWS_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace anabranch {
namespace kernels {

struct Contraction;

struct ImageWindows {
  mlir::AffineMap map;             ///< of the view: (rows, taps, c) -> image
  mlir::SmallVector<int64_t> taps; ///< per dimension; empty: one point
  int64_t run = 0;                 ///< elements of a tap
  mlir::tensor::InsertSliceOp padding; ///< null: none
  int8_t fill = 0;                     ///< each byte of the padding
  mlir::BlockArgument image;           ///< without its padding
  bool isContiguous = true;            ///< whether the image is row-major

  /// A dimension of an image and of its windows, of static sizes.
  struct Axis {
    int64_t points = 1, taps = 1, stride = 1, dilation = 1;
    int64_t padding = 0, size = 1; ///< before the image; and the image's size

    /// How many points of the image, in units of the stride, a window has after
    /// its first.
    int64_t extent() const { return (taps - 1) * dilation / stride; }
    /// The number of remainders of the taps' positions by the stride.
    int64_t phases() const { return taps > 1 ? stride : 1; }
  };
  /// The dimensions of an image of which a window reads all channels, or those
  /// of a group. A two-dimensional image counts as a single slice, a
  /// one-dimensional one as a single column. None for other images.
  struct Axes {
    Axis slices, rows, columns;
  };
  std::optional<Axes> axes;
  /// Of an image with axes: the product's loop of groups, each of `run`
  /// channels. None: a window reads all channels.
  std::optional<unsigned> group;

  /// None unless the left operand is a view of windows of an argument whose
  /// last dimension is contiguous.
  static std::optional<ImageWindows> of(const Contraction &contraction);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_IMAGEWINDOWS_H
