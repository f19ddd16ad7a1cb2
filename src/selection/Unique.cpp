//===- Unique.cpp - the different numbers of a tensor, sorted -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Unique.h"

#include "selection/Keys.h"
#include "selection/SpreadSort.h"

namespace anabranch::selection {

/// Keeps the first of equal neighbours. `found` gets each entry, and the number
/// of the different one that it equals.
template <typename Entry, typename Found>
void Unique::gather(const std::vector<Entry> &sorted, Found found) {
  bool nan = hasNan(dtype);
  for (size_t i = 0; i < sorted.size(); ++i) {
    uint64_t key = keyOf(sorted[i]);
    if (i == 0 || key != keys.back() || (nan && key == nanKey)) {
      keys.push_back(key);
      firsts.push_back(static_cast<int64_t>(i));
    }
    found(sorted[i], static_cast<int64_t>(keys.size()) - 1);
  }
}

Unique::Unique(const void *numbers, DType dtype, int64_t count,
               int64_t *inverse)
    : dtype(dtype), total(count) {
  if (!inverse) {
    std::vector<uint64_t> sorted(count), spare(count);
    writeKeys(numbers, dtype, count, sorted.data(), 1);
    spreadSort(sorted.data(), spare.data(), count);
    gather(sorted, [](uint64_t, int64_t) {});
    return;
  }
  std::vector<Placed> sorted(count), spare(count);
  writePlaced(numbers, dtype, count, sorted.data());
  spreadSort(sorted.data(), spare.data(), count);
  gather(sorted, [&](const Placed &entry, int64_t number) {
    inverse[entry.place] = number;
  });
}

void Unique::writeNumbers(void *numbers) const {
  selection::writeNumbers(keys.data(), dtype, size(), numbers);
}

void Unique::writeCounts(int64_t *counts) const {
  for (int64_t i = 0; i < size(); ++i)
    counts[i] = (i + 1 < size() ? firsts[i + 1] : total) - firsts[i];
}

} // namespace anabranch::selection
