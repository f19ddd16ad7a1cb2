//===- SpreadSort.h - sorts entries by their keys ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
//   keys     17 3 90 41 5     from 3 to 90, so a bucket has 32 keys
//   buckets  17 3 5 | 41 | 90
//
// Each bucket is sorted in turn. The least and the largest key of a list lie in
// different buckets, and a bucket's range is a fraction of the list's: so the
// depth is limited whatever the keys are.

#ifndef ANABRANCH_SELECTION_SPREADSORT_H
#define ANABRANCH_SELECTION_SPREADSORT_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace anabranch::selection {

inline uint64_t keyOf(uint64_t key) { return key; }

template <typename Entry>
void spreadSort(Entry *entries, Entry *spare, int64_t count);

namespace detail {

/// Lists that a comparing sort orders faster than buckets do.
constexpr int64_t shortList = 48;
/// More buckets than these do not stay in the second cache.
constexpr int mostBucketBits = 14;

/// The number of buckets of `count` entries, as a power of two: about two
/// entries share one.
inline int bucketBits(int64_t count) {
  int bits = 62 - __builtin_clzll(static_cast<uint64_t>(count));
  return std::min(std::max(bits, 4), mostBucketBits);
}

/// Moves the entries into buckets, and sorts each that has several keys.
template <typename Entry>
void sortByBuckets(Entry *entries, Entry *spare, int64_t count, uint64_t least,
                   uint64_t most) {
  int width = 64 - __builtin_clzll(most - least);
  int shift = std::max(0, width - bucketBits(count));
  auto bucketOf = [&](const Entry &entry) {
    return static_cast<size_t>((keyOf(entry) - least) >> shift);
  };
  std::vector<int64_t> ends(((most - least) >> shift) + 2);
  for (int64_t i = 0; i < count; ++i)
    ++ends[bucketOf(entries[i]) + 1];
  for (size_t bucket = 1; bucket < ends.size(); ++bucket)
    ends[bucket] += ends[bucket - 1];
  for (int64_t i = 0; i < count; ++i)
    spare[ends[bucketOf(entries[i])]++] = entries[i];
  int64_t begin = 0;
  for (size_t bucket = 0; shift && bucket + 1 < ends.size(); ++bucket) {
    spreadSort(spare + begin, entries + begin, ends[bucket] - begin);
    begin = ends[bucket];
  }
  std::copy_n(spare, count, entries);
}

} // namespace detail

/// Sorts entries in the order of `keyOf`, equal keys in the order in which they
/// come. `spare` has room for as many.
template <typename Entry>
void spreadSort(Entry *entries, Entry *spare, int64_t count) {
  auto before = [](const Entry &a, const Entry &b) {
    return keyOf(a) < keyOf(b);
  };
  if (count <= detail::shortList) {
    for (int64_t i = 1; i < count; ++i) {
      Entry entry = entries[i];
      int64_t place = i;
      for (; place && before(entry, entries[place - 1]); --place)
        entries[place] = entries[place - 1];
      entries[place] = entry;
    }
    return;
  }
  uint64_t least = keyOf(entries[0]), most = least;
  for (int64_t i = 1; i < count; ++i) {
    least = std::min(least, keyOf(entries[i]));
    most = std::max(most, keyOf(entries[i]));
  }
  if (least != most)
    detail::sortByBuckets(entries, spare, count, least, most);
}

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_SPREADSORT_H
