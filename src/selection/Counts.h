//===- Counts.h - repeats positions, and counts numbers ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SELECTION_COUNTS_H
#define ANABRANCH_SELECTION_COUNTS_H

#include <cstdint>
#include <vector>

namespace anabranch::selection {

/// How long the repetition of positions is; -1 if a count is negative, or the
/// total is 2^63 or more.
template <typename T> int64_t totalOf(const T *counts, int64_t size);

/// Writes each position as often as its count says. There is room for `total`
/// numbers.
template <typename T>
void repeatPositions(const T *counts, int64_t size, int64_t total,
                     T *positions);

/// The numbers from least to most, which are zero and -1 if there is none.
struct Range {
  int64_t least = 0, most = -1;
};
template <typename T> Range rangeOf(const T *numbers, int64_t size);

/// Adds to `bins`, at each number, the weight at its position; one if `weights`
/// is null. All numbers are in [0, binCount).
template <typename T, typename Sum>
void addToBins(const T *numbers, const Sum *weights, int64_t size, Sum *bins,
               int64_t binCount);

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_COUNTS_H
