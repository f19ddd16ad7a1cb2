//===- Sort.cpp - lines of a tensor in order ------------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's CPU kernels call std::sort, std::partial_sort and std::nth_element
// with comparisons of the numbers alone. Where equal elements come then depends
// on nothing else, so the same calls leave them in the same places.

#include "selection/Sort.h"

#include "selection/Entries.h"

#include <algorithm>
#include <vector>

namespace anabranch::selection {

namespace {

/// Memory for the entries of one line after another.
struct Lists {
  std::vector<Entry> list, spare;
};

/// The entries of a line in order.
class OrderedLine {
public:
  OrderedLine(const void *numbers, DType dtype, int64_t count, Order order,
              Lists &lists)
      : entries(numbers, dtype, count, order), list(lists.list),
        spare(lists.spare) {
    list.resize(count);
    fill();
  }

  /// Puts the first `kept` where they belong, and perhaps more.
  void order(Ties ties, int64_t kept) {
    entries.withOrder([&](auto isBefore) {
      if (ties == Ties::OfTopK || ties == Ties::OfLooseTopK)
        return takeAsPyTorch(ties, kept, isBefore);
      spare.resize(list.size());
      entries.sort(list, spare);
      if (ties == Ties::OfSort && hasEqual(isBefore)) {
        fill();
        std::sort(list.begin(), list.end(), isBefore);
      }
    });
  }

  int64_t operator[](int64_t i) const { return entries.placeOf(list[i]); }

private:
  const Entries entries;
  std::vector<Entry> &list, &spare;

  void fill() { entries.write(0, list.size(), list.data()); }

  template <typename IsBefore> bool hasEqual(IsBefore isBefore) const {
    for (size_t i = 1; i < list.size(); ++i)
      if (!isBefore(list[i - 1], list[i]))
        return true;
    return false;
  }

  /// Calls what ATen/native/TopKImpl.h calls.
  template <typename IsBefore>
  void takeAsPyTorch(Ties ties, int64_t kept, IsBefore isBefore) {
    auto begin = list.begin(), end = list.end();
    if (kept * 64 <= static_cast<int64_t>(list.size()))
      return std::partial_sort(begin, begin + kept, end, isBefore);
    std::nth_element(begin, begin + kept - 1, end, isBefore);
    if (ties == Ties::OfTopK)
      std::sort(begin, begin + kept - 1, isBefore);
  }
};

/// Sorts one line after another. `Bits` has the size of an element.
template <typename Bits> class LineSorter {
public:
  LineSorter(DType dtype, RowShape shape, Order order, Ties ties, int64_t kept)
      : dtype(dtype), shape(shape), order(order), ties(ties), kept(kept),
        copy(shape.inner == 1 ? 0 : shape.rows) {}

  void sort(const Bits *numbers, Bits *sorted, int64_t *places) {
    for (size_t row = 0; row < copy.size(); ++row)
      copy[row] = numbers[row * shape.inner];
    const Bits *line = copy.empty() ? numbers : copy.data();
    OrderedLine found(line, dtype, shape.rows, order, lists);
    found.order(ties, kept);
    for (int64_t i = 0; sorted && i < kept; ++i)
      sorted[i * shape.inner] = line[found[i]];
    for (int64_t i = 0; places && i < kept; ++i)
      places[i * shape.inner] = found[i];
  }

private:
  DType dtype;
  RowShape shape;
  Order order;
  Ties ties;
  int64_t kept;
  std::vector<Bits> copy; ///< a line that is not contiguous
  Lists lists;
};

template <typename Bits>
void sortAll(const void *numbers, DType dtype, RowShape shape, Order order,
             Ties ties, int64_t kept, void *sorted, int64_t *places) {
  LineSorter<Bits> sorter(dtype, shape, order, ties, kept);
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
               Ties ties, int64_t kept, void *sorted, int64_t *places) {
  if (kept == 0)
    return;
  switch (itemSize(dtype)) {
  case 1:
    return sortAll<uint8_t>(numbers, dtype, shape, order, ties, kept, sorted,
                            places);
  case 2:
    return sortAll<uint16_t>(numbers, dtype, shape, order, ties, kept, sorted,
                             places);
  case 4:
    return sortAll<uint32_t>(numbers, dtype, shape, order, ties, kept, sorted,
                             places);
  default:
    return sortAll<uint64_t>(numbers, dtype, shape, order, ties, kept, sorted,
                             places);
  }
}

} // namespace anabranch::selection
