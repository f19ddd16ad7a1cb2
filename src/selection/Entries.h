//===- Entries.h - the elements of a line, to be put in order ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// An entry is a word that has the rank of an element and its place:
//
//   bits     63 ... placeBits   placeBits - 1 ... 0
//   word     rank               place
//
// A rank is the distance from the least key of the line, or to the largest.
// Ranks of a wide range lose their last bits. Two entries whose words have one
// rank are then compared by the keys of their elements.

#ifndef ANABRANCH_SELECTION_ENTRIES_H
#define ANABRANCH_SELECTION_ENTRIES_H

#include "selection/Keys.h"

#include <vector>

namespace anabranch::selection {

using Entry = uint64_t;

class Entries {
public:
  /// For the elements of a line, which the entries refer to.
  Entries(const void *numbers, DType dtype, int64_t count, Order order);

  /// Writes the entries of `count` elements from the place `first` on.
  void write(int64_t first, int64_t count, Entry *entries) const;
  int64_t placeOf(Entry entry) const {
    return entry & ((uint64_t(1) << placeBits) - 1);
  }

  /// Calls `use` with what says whether the element of an entry comes before
  /// that of another one, and is another number.
  template <typename Use> void withOrder(Use use) const {
    if (lostBits)
      use([this](Entry a, Entry b) { return isBefore(a, b); });
    else
      use([bits = placeBits](Entry a, Entry b) {
        return a >> bits < b >> bits;
      });
  }

  /// Sorts entries that come in the order of their places. Equal elements keep
  /// this order. `spare` has room for as many.
  void sort(std::vector<Entry> &entries, std::vector<Entry> &spare) const;

private:
  const char *numbers;
  DType dtype;
  uint64_t least = 0;
  uint64_t top = 0;  ///< the largest rank, which every NaN has
  int placeBits = 0; ///< and the bits of a rank that an entry has not
  int rankBits = 0, lostBits = 0;
  bool isTurned = false;

  /// The order where ranks have lost bits.
  bool isBefore(Entry a, Entry b) const {
    uint64_t rankA = a >> placeBits, rankB = b >> placeBits;
    return rankA == rankB ? rankAt(placeOf(a)) < rankAt(placeOf(b))
                          : rankA < rankB;
  }
  uint64_t rankOf(uint64_t key) const;
  uint64_t rankAt(int64_t place) const;
  void sortRuns(std::vector<Entry> &entries, int sorted) const;
  void sortRun(Entry *begin, Entry *end, int sorted) const;
};

} // namespace anabranch::selection

#endif // ANABRANCH_SELECTION_ENTRIES_H
