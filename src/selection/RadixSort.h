//===- RadixSort.h - sorts words by some of their bits ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SELECTION_RADIXSORT_H
#define ANABRANCH_SELECTION_RADIXSORT_H

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace anabranch::selection {

namespace detail {

/// Moves the words into the order of one digit, those with equal digits in the
/// order in which they come. False: all have the same, and stay where they are.
inline bool spreadDigit(const std::vector<uint64_t> &words,
                        std::vector<uint64_t> &spread, int shift,
                        std::vector<int64_t> &ends) {
  auto digitOf = [&, mask = ends.size() - 1](uint64_t word) {
    return word >> shift & mask;
  };
  std::fill(ends.begin(), ends.end(), 0);
  for (uint64_t word : words)
    ++ends[digitOf(word)];
  if (ends[digitOf(words[0])] == static_cast<int64_t>(words.size()))
    return false;
  int64_t begin = 0;
  for (int64_t &end : ends)
    begin += std::exchange(end, begin);
  for (uint64_t word : words)
    spread[ends[digitOf(word)]++] = word;
  return true;
}

} // namespace detail

/// Sorts words by their bits from `begin` to `end`, those that are equal there
/// in the order in which they come. `spare` has room for as many.
inline void radixSort(std::vector<uint64_t> &words,
                      std::vector<uint64_t> &spare, int begin, int end) {
  // More lists than these do not stay in the first cache, and it does not pay
  // to count the lists of few words.
  int bits = words.size() < 8192 ? 8 : 11;
  std::vector<int64_t> ends(size_t(1) << bits);
  for (int shift = begin; shift < end; shift += bits)
    if (detail::spreadDigit(words, spare, shift, ends))
      words.swap(spare);
}

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_RADIXSORT_H
