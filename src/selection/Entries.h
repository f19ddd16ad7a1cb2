//===- Entries.h - the elements of a line, to be put in order ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// An entry is the key of an element and its place. Where both fit into a word,
// an entry is one:
//
//   bits     63 ... placeBits   placeBits - 1 ... 0
//   word     rank               place

#ifndef ANABRANCH_SELECTION_ENTRIES_H
#define ANABRANCH_SELECTION_ENTRIES_H

#include "selection/Keys.h"
#include "selection/RadixSort.h"
#include "selection/SpreadSort.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace anabranch::selection {

/// Entries of any key.
class PlacedEntries {
public:
  using Entry = Placed;

  explicit PlacedEntries(Order order)
      : turned(order == Order::LargestFirst ? ~uint64_t(0) : 0) {}

  Entry make(uint64_t key, int64_t place) const {
    return {key ^ turned, place};
  }
  int64_t placeOf(const Entry &entry) const { return entry.place; }
  bool isBefore(const Entry &a, const Entry &b) const { return a.key < b.key; }

  /// Sorts the entries of a whole line, which come in the order of their
  /// places.
  void sort(std::vector<Entry> &entries, std::vector<Entry> &spare) const {
    spreadSort(entries.data(), spare.data(), entries.size());
  }

private:
  uint64_t turned;
};

/// Entries that are one word. A rank is the distance from the least key, or to
/// the largest.
class PackedEntries {
public:
  using Entry = uint64_t;

  /// For the elements of a line. None: some entries do not fit.
  static std::optional<PackedEntries> of(const void *numbers, DType dtype,
                                         int64_t count, Order order);

  Entry make(uint64_t key, int64_t place) const {
    uint64_t rank = std::min(key - least, top);
    return (isTurned ? top - rank : rank) << placeBits | place;
  }
  int64_t placeOf(Entry entry) const {
    return entry & ((uint64_t(1) << placeBits) - 1);
  }
  bool isBefore(Entry a, Entry b) const {
    return a < (b >> placeBits << placeBits);
  }

  /// Sorts the entries of a whole line, which come in the order of their
  /// places.
  void sort(std::vector<Entry> &entries, std::vector<Entry> &spare) const {
    if (entries.size() < 64)
      return std::sort(entries.begin(), entries.end());
    radixSort(entries, spare, placeBits, placeBits + rankBits);
  }

private:
  uint64_t least = 0;
  uint64_t top = 0; ///< the largest rank, which every NaN has
  int rankBits = 0, placeBits = 0;
  bool isTurned = false;
};

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_ENTRIES_H
