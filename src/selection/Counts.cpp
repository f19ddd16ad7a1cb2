//===- Counts.cpp - repeats positions, and counts numbers -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Counts.h"

#include <algorithm>

namespace anabranch::selection {

/// The sum of numbers that are not negative; -1 if it is 2^63 or more.
template <typename T> static int64_t sumWithin(const T *counts, int64_t size) {
  int64_t total = 0;
  for (int64_t i = 0; i < size; ++i)
    if (__builtin_add_overflow(total, counts[i], &total))
      return -1;
  return total;
}

template <typename T> int64_t totalOf(const T *counts, int64_t size) {
  // Small counts, and all counts of a memory that exists, add up without a
  // check for each: this loop has vectors.
  constexpr int64_t small = int64_t(1) << 31;
  uint64_t total = 0;
  T bits = 0;
  for (int64_t i = 0; i < size; ++i) {
    total += static_cast<uint64_t>(counts[i]);
    bits |= counts[i];
  }
  if (bits < 0)
    return -1;
  return bits < small && size < small ? static_cast<int64_t>(total)
                                      : sumWithin(counts, size);
}

template <typename T>
void repeatPositions(const T *counts, int64_t size, int64_t total,
                     T *positions) {
  // Most counts are small, and no branch foresees them: a short store without
  // one is fastest. What it writes too much, the next position overwrites.
  constexpr int64_t usual = 4;
  T *const end = positions + total;
  for (int64_t i = 0; i < size; ++i) {
    T position = static_cast<T>(i), *next = positions + counts[i];
    if (counts[i] <= usual && end - positions >= usual)
      std::fill_n(positions, usual, position);
    else
      std::fill(positions, next, position);
    positions = next;
  }
}

template <typename T> Range rangeOf(const T *numbers, int64_t size) {
  if (size == 0)
    return {};
  T least = numbers[0], most = numbers[0];
  for (int64_t i = 1; i < size; ++i) {
    least = std::min(least, numbers[i]);
    most = std::max(most, numbers[i]);
  }
  return {static_cast<int64_t>(least), static_cast<int64_t>(most)};
}

template <typename T, typename Sum>
void addToBins(const T *numbers, const Sum *weights, int64_t size, Sum *bins,
               int64_t binCount) {
  // Equal neighbours wait for each other's sum, so four tables take turns where
  // they are small. A sum of floats keeps the order of its terms.
  constexpr int64_t tables = 4, smallTable = 4096;
  int64_t i = 0;
  if (!weights && binCount <= smallTable && size >= binCount * tables) {
    std::vector<int64_t> sums(tables * binCount);
    for (; i + tables <= size; i += tables)
      for (int64_t t = 0; t < tables; ++t)
        ++sums[t * binCount + static_cast<int64_t>(numbers[i + t])];
    for (int64_t t = 0; t < tables; ++t)
      for (int64_t bin = 0; bin < binCount; ++bin)
        bins[bin] += static_cast<Sum>(sums[t * binCount + bin]);
  }
  for (; i < size; ++i)
    bins[numbers[i]] += weights ? weights[i] : Sum(1);
}

template int64_t totalOf(const int32_t *, int64_t);
template int64_t totalOf(const int64_t *, int64_t);
template void repeatPositions(const int32_t *, int64_t, int64_t, int32_t *);
template void repeatPositions(const int64_t *, int64_t, int64_t, int64_t *);

#define ANABRANCH_COUNTS_OF(T)                                                 \
  template Range rangeOf(const T *, int64_t);                                  \
  template void addToBins(const T *, const int64_t *, int64_t, int64_t *,      \
                          int64_t);                                            \
  template void addToBins(const T *, const float *, int64_t, float *,          \
                          int64_t);                                            \
  template void addToBins(const T *, const double *, int64_t, double *,        \
                          int64_t);
ANABRANCH_COUNTS_OF(uint8_t)
ANABRANCH_COUNTS_OF(int8_t)
ANABRANCH_COUNTS_OF(int16_t)
ANABRANCH_COUNTS_OF(int32_t)
ANABRANCH_COUNTS_OF(int64_t)
#undef ANABRANCH_COUNTS_OF

} // namespace anabranch::selection
