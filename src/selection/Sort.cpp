//===- Sort.cpp - lines of a tensor in order ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Sort.h"

#include "selection/Keys.h"
#include "selection/SpreadSort.h"

#include <tuple>

namespace anabranch::selection {

namespace {

bool isBefore(const Placed &a, const Placed &b) {
  return std::tie(a.key, a.place) < std::tie(b.key, b.place);
}

/// Sorts one line after another. `Bits` has the size of an element.
template <typename Bits> class LineSorter {
public:
  LineSorter(DType dtype, RowShape shape, Order order, int64_t kept)
      : dtype(dtype), shape(shape),
        turned(order == Order::LargestFirst ? ~uint64_t(0) : 0), kept(kept),
        isFew(kept <= shape.rows / 8), line(shape.rows),
        entries(isFew ? kept : shape.rows),
        spare(kept == shape.rows ? kept : 0) {}

  void sort(const Bits *numbers, Bits *sorted, int64_t *places) {
    for (int64_t row = 0; row < shape.rows; ++row)
      line[row] = numbers[row * shape.inner];
    writePlaced(line.data(), dtype, entries.size(), entries.data());
    for (Placed &entry : entries)
      entry.key ^= turned;
    putInOrder();
    for (int64_t i = 0; sorted && i < kept; ++i)
      sorted[i * shape.inner] = line[entries[i].place];
    for (int64_t i = 0; places && i < kept; ++i)
      places[i * shape.inner] = entries[i].place;
  }

private:
  DType dtype;
  RowShape shape;
  /// The order of turned keys is the other way round, and equal ones stay so.
  uint64_t turned;
  int64_t kept;
  /// The entries are those of the best elements up to now, not of the line.
  bool isFew;
  std::vector<Bits> line;
  std::vector<Placed> entries, spare;

  void putInOrder() {
    if (isFew)
      return keepBest();
    if (kept == shape.rows)
      return spreadSort(entries.data(), spare.data(), shape.rows);
    auto end = entries.begin() + kept;
    std::nth_element(entries.begin(), end, entries.end(), isBefore);
    std::sort(entries.begin(), end, isBefore);
  }

  /// The entries are a heap with the last of them on top. An element that is
  /// equal to it comes later, so it stays out.
  void keepBest() {
    std::make_heap(entries.begin(), entries.end(), isBefore);
    constexpr int64_t block = 256;
    uint64_t keys[block];
    for (int64_t begin = kept; begin < shape.rows; begin += block) {
      int64_t count = std::min(block, shape.rows - begin);
      writeKeys(&line[begin], dtype, count, keys, 1);
      for (int64_t i = 0; i < count; ++i)
        if ((keys[i] ^ turned) < entries.front().key)
          replaceLast({keys[i] ^ turned, begin + i});
    }
    std::sort_heap(entries.begin(), entries.end(), isBefore);
  }

  void replaceLast(Placed entry) {
    std::pop_heap(entries.begin(), entries.end(), isBefore);
    entries.back() = entry;
    std::push_heap(entries.begin(), entries.end(), isBefore);
  }
};

template <typename Bits>
void sortAll(const void *numbers, DType dtype, RowShape shape, Order order,
             int64_t kept, void *sorted, int64_t *places) {
  LineSorter<Bits> sorter(dtype, shape, order, kept);
  for (int64_t outer = 0; outer < shape.outer; ++outer)
    for (int64_t inner = 0; inner < shape.inner; ++inner) {
      int64_t to = outer * kept * shape.inner + inner;
      sorter.sort(static_cast<const Bits *>(numbers) +
                      outer * shape.rows * shape.inner + inner,
                  sorted ? static_cast<Bits *>(sorted) + to : nullptr,
                  places ? places + to : nullptr);
    }
}

} // namespace

void sortLines(const void *numbers, DType dtype, RowShape shape, Order order,
               int64_t kept, void *sorted, int64_t *places) {
  if (kept == 0)
    return;
  switch (itemSize(dtype)) {
  case 1:
    return sortAll<uint8_t>(numbers, dtype, shape, order, kept, sorted, places);
  case 2:
    return sortAll<uint16_t>(numbers, dtype, shape, order, kept, sorted,
                             places);
  case 4:
    return sortAll<uint32_t>(numbers, dtype, shape, order, kept, sorted,
                             places);
  default:
    return sortAll<uint64_t>(numbers, dtype, shape, order, kept, sorted,
                             places);
  }
}

} // namespace anabranch::selection
