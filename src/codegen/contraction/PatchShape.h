//===- PatchShape.h - a copy of a part of an image --------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A copy of the points of an image, padding included, that a tile of a
// convolution reads. It has each point once, not once for each window. Its
// layout is
//
//   [row phase][column phase][row][column][channel]
//
// where the phases are the remainders of a point's position by the stride. So
// the points that a tap reads in neighbouring windows are at equal distances,
// whatever the stride is. The next row of windows comes after as many points as
// a row of the copy has. So windows are numbered through. Numbers between the
// last window of a row and the first of the next one belong to no window, and
// nobody reads their sums.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_CONTRACTION_PATCHSHAPE_H
#define ANABRANCH_CODEGEN_CONTRACTION_PATCHSHAPE_H

#include "codegen/contraction/ImageWindows.h"

namespace anabranch {
namespace codegen {

struct PatchShape {
  int64_t windowRows;    ///< of a tile
  int64_t windowColumns; ///< of an image, and of a tile
  int64_t rows, columns; ///< of a phase
  int64_t rowPhases, columnPhases;
  int64_t run; ///< channels

  /// The shape for this many rows of windows of one image.
  static PatchShape of(const ImageWindows &windows, int64_t windowRows) {
    const auto &[down, right] = *windows.plane;
    return {windowRows,
            right.points,
            windowRows + down.extent(),
            right.points + right.extent(),
            down.phases(),
            right.phases(),
            windows.run};
  }

  /// The number of windows, including the numbers between two rows that belong
  /// to no window.
  int64_t numbers() const { return (windowRows - 1) * columns + windowColumns; }
  int64_t phaseElements() const { return rows * columns * run; }
  int64_t elements() const {
    return rowPhases * columnPhases * phaseElements();
  }
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_CONTRACTION_PATCHSHAPE_H
