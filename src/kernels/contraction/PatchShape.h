//===- PatchShape.h - a copy of a part of an image --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A copy of the points of an image, padding included, that a tile of a
// convolution reads. It has each point once, not once for each window. Its
// layout is
//
//   [slice][row phase][column phase][row][column][channel]
//
// where the phases are the remainders of a point's position by the stride. So
// the points that a tap reads in neighbouring windows are at equal distances,
// whatever the stride is. The next row of windows comes after as many points as
// a row of the copy has. So windows are numbered through. Numbers between the
// last window of a row and the first of the next one belong to no window, and
// nobody reads their sums. The windows of a tile are in one slice of their
// volume; the copy has a slice for each tap.
//
// If taps are joined, those of a row of a window are neighbours, channel by
// channel. Columns have no phases then:
//
//   [slice][row phase][row][column][step of the stride][channel]
//
// Each point may have some channels of zeros after its own, so that points
// consist of whole words.

#ifndef ANABRANCH_KERNELS_CONTRACTION_PATCHSHAPE_H
#define ANABRANCH_KERNELS_CONTRACTION_PATCHSHAPE_H

#include "kernels/contraction/ImageWindows.h"

namespace anabranch {
namespace kernels {

struct PatchShape {
  bool joinsTaps;
  int64_t windowRows;    ///< of a tile
  int64_t windowColumns; ///< of an image, and of a tile
  int64_t slices;
  int64_t rows, columns; ///< of a phase
  int64_t rowPhases, columnPhases;
  int64_t imageChannels, channels; ///< of a point, in the image and here
  int64_t pointsOfColumn;          ///< of each row
  int64_t run;                     ///< depths that are neighbours

  /// How points and taps are laid out.
  struct Layout {
    bool joinsTaps = false;
    int64_t channels; ///< of a point, those of zeros included

    int64_t runOf(const ImageWindows &windows) const {
      return channels * (joinsTaps ? windows.axes->columns.taps : 1);
    }
  };

  /// The shape for this many rows of windows of one image.
  static PatchShape of(const ImageWindows &windows, int64_t windowRows,
                       const Layout &layout) {
    const auto &[slices, down, right] = *windows.axes;
    PatchShape shape;
    bool joinsTaps = shape.joinsTaps = layout.joinsTaps;
    shape.windowRows = windowRows;
    shape.windowColumns = right.points;
    shape.slices = slices.taps;
    shape.rows = windowRows + down.extent();
    shape.rowPhases = down.phases();
    shape.imageChannels = windows.run;
    shape.channels = layout.channels;
    shape.pointsOfColumn = joinsTaps ? right.stride : 1;
    shape.columnPhases = joinsTaps ? 1 : right.phases();
    shape.columns = joinsTaps ? right.points + (right.taps - 1) / right.stride
                              : right.points + right.extent();
    shape.run = layout.runOf(windows);
    return shape;
  }

  /// Whether tiles of `part` rows of windows cut images of `points` rows well.
  /// Parts of several images are equal, so that no tile reaches into a second
  /// image. Of parts that make as many tiles of a single image, the smallest
  /// wastes least.
  static bool cutsWell(int64_t points, int64_t part, bool isSingle) {
    if (!isSingle)
      return points % part == 0;
    int64_t parts = (points + part - 1) / part;
    return part == (points + parts - 1) / parts;
  }
  /// Whether the taps of a row of a window are neighbours in the image.
  static bool canJoinTaps(const ImageWindows &windows) {
    const ImageWindows::Axis &right = windows.axes->columns;
    return right.taps > 1 && right.dilation == 1;
  }
  bool padsChannels() const { return channels != imageChannels; }
  /// So many depths with the channels of zeros.
  int64_t paddedDepth(int64_t depth) const {
    return depth / imageChannels * channels;
  }

  /// The number of windows, including the numbers between two rows that belong
  /// to no window.
  int64_t numbers() const { return (windowRows - 1) * columns + windowColumns; }
  /// Elements from one number to the next.
  int64_t numberElements() const { return pointsOfColumn * channels; }
  int64_t rowElements() const { return columns * numberElements(); }
  int64_t phaseElements() const { return rows * rowElements(); }
  int64_t sliceElements() const {
    return rowPhases * columnPhases * phaseElements();
  }
  int64_t elements() const { return slices * sliceElements(); }
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_PATCHSHAPE_H
