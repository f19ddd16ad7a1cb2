//===- RangeTree.h - the largest number in a range of places ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_RANGETREE_H
#define ANABRANCH_PACKAGE_VERIFY_RANGETREE_H

#include <algorithm>
#include <cstddef>
#include <vector>

namespace anabranch::package {

/// Numbers on a line of places. `put` gives a number to every place of a range;
/// `get` returns the largest number that any place of a range has got. Both
/// take time in the logarithm of the number of places. Not thread-safe.
class RangeTree {
public:
  static constexpr int none = -1;

  explicit RangeTree(size_t places)
      : places(places), cover(2 * places, none), largest(2 * places, none) {}

  void clear() {
    std::fill(cover.begin(), cover.end(), none);
    std::fill(largest.begin(), largest.end(), none);
  }

  void put(size_t begin, size_t end, int value) {
    if (begin >= end)
      return;
    forEachNode(begin, end, [&](size_t node) {
      cover[node] = std::max(cover[node], value);
      for (; node && largest[node] < value; node /= 2)
        largest[node] = value;
    });
  }

  int get(size_t begin, size_t end) const {
    int found = none;
    if (begin >= end)
      return found;
    forEachNode(begin, end,
                [&](size_t node) { found = std::max(found, largest[node]); });
    // Numbers that were put on larger ranges which contain an end of this one.
    // A range that contains neither end is one of the nodes below, or lies
    // under one.
    for (size_t leaf : {begin + places, end - 1 + places})
      for (; leaf; leaf /= 2)
        found = std::max(found, cover[leaf]);
    return found;
  }

private:
  /// Visits the nodes that make up the range, of which none contains another.
  template <typename Visit>
  void forEachNode(size_t begin, size_t end, Visit visit) const {
    for (begin += places, end += places; begin < end; begin /= 2, end /= 2) {
      if (begin & 1)
        visit(begin++);
      if (end & 1)
        visit(--end);
    }
  }

  size_t places;
  std::vector<int> cover;   ///< put on all places under a node
  std::vector<int> largest; ///< put on places under a node, or over it
};

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_RANGETREE_H
