//===- Rows.h - selects and assigns rows by a mask --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SELECTION_ROWS_H
#define ANABRANCH_SELECTION_ROWS_H

#include "selection/Mask.h"

#include <cstddef>

namespace anabranch::selection {

/// Copies the rows at which the mask is true, of `bytes` each, to `chosen`.
void selectRows(const Mask &mask, const void *rows, size_t bytes, void *chosen);

/// Writes values to the rows at which the mask is true, in order. The next
/// value lies `step` bytes after one; zero: all rows get the same.
void assignRows(const Mask &mask, const void *values, size_t step, size_t bytes,
                void *rows);

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_ROWS_H
