//===- RowShape.h - a tensor as rows of a middle dimension ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SELECTION_ROWSHAPE_H
#define ANABRANCH_SELECTION_ROWSHAPE_H

#include <cstdint>

namespace anabranch::selection {

/// A contiguous tensor [outer, rows, inner], of which row `i` is [:, i, :].
struct RowShape {
  int64_t outer, rows, inner;
};

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_ROWSHAPE_H
