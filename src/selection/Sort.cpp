//===- Sort.cpp - lines of a tensor in order ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Sort.h"

#include "selection/Keys.h"
#include "selection/SpreadSort.h"

#include <tuple>

namespace anabranch::selection {

namespace {

/// Sorts one line after another. `Bits` has the size of an element.
template <typename Bits> class LineSorter {
public:
  LineSorter(DType dtype, RowShape shape, Order order, int64_t kept)
      : dtype(dtype), shape(shape), order(order), kept(kept), line(shape.rows),
        entries(shape.rows), spare(shape.rows) {}

  void sort(const Bits *numbers, Bits *sorted, int64_t *places) {
    for (int64_t row = 0; row < shape.rows; ++row)
      line[row] = numbers[row * shape.inner];
    writePlaced(line.data(), dtype, shape.rows, entries.data());
    // The order of turned keys is the other way round, and equal ones stay so.
    if (order == Order::LargestFirst)
      for (Placed &entry : entries)
        entry.key = ~entry.key;
    putInOrder();
    for (int64_t i = 0; sorted && i < kept; ++i)
      sorted[i * shape.inner] = line[entries[i].place];
    for (int64_t i = 0; places && i < kept; ++i)
      places[i * shape.inner] = entries[i].place;
  }

private:
  DType dtype;
  RowShape shape;
  Order order;
  int64_t kept;
  std::vector<Bits> line;
  std::vector<Placed> entries, spare;

  void putInOrder() {
    if (kept == shape.rows)
      return spreadSort(entries.data(), spare.data(), shape.rows);
    auto before = [](const Placed &a, const Placed &b) {
      return std::tie(a.key, a.place) < std::tie(b.key, b.place);
    };
    auto end = entries.begin() + kept;
    std::nth_element(entries.begin(), end, entries.end(), before);
    std::sort(entries.begin(), end, before);
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
  if (shape.rows == 0)
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
