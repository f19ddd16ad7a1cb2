//===- Sort.cpp - lines of a tensor in order ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Sort.h"

#include "selection/Entries.h"

namespace anabranch::selection {

namespace {

/// Finds the first elements of a line in the order of its entries.
template <typename Entries> class Firsts {
public:
  using Entry = typename Entries::Entry;

  /// Their entries, in order.
  const std::vector<Entry> &find(const Entries &entries, const void *numbers,
                                 DType dtype, int64_t count, int64_t kept) {
    found.clear();
    if (kept <= count / 8)
      keepBest(entries, numbers, dtype, count, kept);
    else
      orderAll(entries, numbers, dtype, count, kept);
    return found;
  }

private:
  std::vector<Entry> found, spare;

  template <typename Use>
  static void forEach(const Entries &entries, const void *numbers, DType dtype,
                      int64_t count, Use use) {
    constexpr int64_t block = 256;
    const char *bytes = static_cast<const char *>(numbers);
    uint64_t keys[block];
    for (int64_t begin = 0; begin < count; begin += block) {
      int64_t size = std::min(block, count - begin);
      writeKeys(bytes + begin * itemSize(dtype), dtype, size, keys, 1);
      for (int64_t i = 0; i < size; ++i)
        use(entries.make(keys[i], begin + i));
    }
  }

  void orderAll(const Entries &entries, const void *numbers, DType dtype,
                int64_t count, int64_t kept) {
    found.reserve(count);
    forEach(entries, numbers, dtype, count,
            [&](const Entry &entry) { found.push_back(entry); });
    if (kept == count) {
      spare.resize(count);
      return entries.sort(found, spare);
    }
    std::nth_element(found.begin(), found.begin() + kept, found.end());
    found.resize(kept);
    std::sort(found.begin(), found.end());
  }

  /// Keeps what comes before the last of the best up to now, and cuts the list
  /// when it has grown to twice their number.
  void keepBest(const Entries &entries, const void *numbers, DType dtype,
                int64_t count, int64_t kept) {
    size_t most = 2 * kept + 64;
    Entry limit = Entries::last();
    auto cut = [&] {
      std::nth_element(found.begin(), found.begin() + kept - 1, found.end());
      found.resize(kept);
      limit = found.back();
    };
    forEach(entries, numbers, dtype, count, [&](const Entry &entry) {
      if (limit < entry)
        return;
      found.push_back(entry);
      if (found.size() == most)
        cut();
    });
    cut();
    std::sort(found.begin(), found.end());
  }
};

/// Sorts one line after another. `Bits` has the size of an element.
template <typename Bits> class LineSorter {
public:
  LineSorter(DType dtype, RowShape shape, Order order, int64_t kept)
      : dtype(dtype), shape(shape), order(order), kept(kept), line(shape.rows) {
  }

  void sort(const Bits *numbers, Bits *sorted, int64_t *places) {
    for (int64_t row = 0; row < shape.rows; ++row)
      line[row] = numbers[row * shape.inner];
    if (auto words = PackedEntries::of(line.data(), dtype, shape.rows, order))
      write(*words, packed, sorted, places);
    else
      write(PlacedEntries(order), placed, sorted, places);
  }

private:
  DType dtype;
  RowShape shape;
  Order order;
  int64_t kept;
  std::vector<Bits> line;
  Firsts<PackedEntries> packed;
  Firsts<PlacedEntries> placed;

  template <typename Entries>
  void write(const Entries &entries, Firsts<Entries> &firsts, Bits *sorted,
             int64_t *places) {
    const auto &found =
        firsts.find(entries, line.data(), dtype, shape.rows, kept);
    for (int64_t i = 0; sorted && i < kept; ++i)
      sorted[i * shape.inner] = line[entries.placeOf(found[i])];
    for (int64_t i = 0; places && i < kept; ++i)
      places[i * shape.inner] = entries.placeOf(found[i]);
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
