//===- Sort.h - lines of a tensor in order ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SELECTION_SORT_H
#define ANABRANCH_SELECTION_SORT_H

#include "anabranch/Tensor.h"
#include "selection/Keys.h"
#include "selection/RowShape.h"

#include <cstdint>

namespace anabranch::selection {

/// In which order equal elements come.
enum class Ties {
  InOrder,     ///< theirs in the line
  OfSort,      ///< that of eager PyTorch's sort
  OfTopK,      ///< that of its topk, which decides too which of them are kept
  OfLooseTopK, ///< the same with `sorted=False`, and so for all elements
};

/// Puts the elements of each line [i, :, j] in order, and writes the first
/// `kept` of them, [outer, kept, inner], and the rows where they stood; either
/// may be null. NaN is the largest. Takes numbers of a dtype that has keys
/// (Keys.h); `kept` is at most `shape.rows`.
void sortLines(const void *numbers, DType dtype, RowShape shape, Order order,
               Ties ties, int64_t kept, void *sorted, int64_t *places);

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_SORT_H
