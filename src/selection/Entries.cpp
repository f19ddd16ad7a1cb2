//===- Entries.cpp - keys and places in one word --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Entries.h"

#include "selection/RadixSort.h"

#include <algorithm>

namespace anabranch::selection {

namespace {

int bitsOf(uint64_t number) {
  return number ? 64 - __builtin_clzll(number) : 0;
}

struct KeyRange {
  uint64_t least, most; ///< of keys but that of NaN
};

/// The range of a dtype of up to four bytes. It leaves a rank for NaN.
KeyRange rangeOf(DType dtype) {
  uint64_t all = ~uint64_t(0) >> (64 - 8 * itemSize(dtype));
  if (hasNan(dtype))
    return {0, all - 1};
  bool isSigned = dtype != DType::Bool && dtype != DType::U8;
  uint64_t least = isSigned ? (uint64_t(1) << 63) - (all / 2 + 1) : 0;
  return {least, least + all};
}

/// The range of some numbers.
KeyRange rangeOf(const void *numbers, DType dtype, int64_t count) {
  constexpr int64_t block = 256;
  const char *bytes = static_cast<const char *>(numbers);
  uint64_t keys[block];
  KeyRange range{~uint64_t(0), 0};
  for (int64_t begin = 0; begin < count; begin += block) {
    int64_t size = std::min(block, count - begin);
    writeKeys(bytes + begin * itemSize(dtype), dtype, size, keys, 1);
    for (int64_t i = 0; i < size; ++i) {
      bool isNan = hasNan(dtype) && keys[i] == nanKey;
      range.least = std::min(range.least, keys[i]);
      range.most = std::max(range.most, isNan ? 0 : keys[i]);
    }
  }
  return range;
}

/// Lists that a comparing sort orders faster than digits do.
constexpr int64_t shortList = 64;

/// So many leading bits of ranks are sorted by digits if ranks have lost bits:
/// of even ranks in the range of a line, few share them.
int sortedBits(int placeBits) { return 2 * placeBits - 4; }

} // namespace

Entries::Entries(const void *numbers, DType dtype, int64_t count, Order order)
    : numbers(static_cast<const char *>(numbers)), dtype(dtype),
      isTurned(order == Order::LargestFirst) {
  KeyRange range =
      itemSize(dtype) <= 4 ? rangeOf(dtype) : rangeOf(numbers, dtype, count);
  least = range.least;
  // Numbers that all are NaN have no range; they are of one rank then.
  uint64_t span = range.most < range.least ? 0 : range.most - range.least;
  top = span + hasNan(dtype);
  placeBits = std::max(bitsOf(count - 1), 1);
  rankBits = bitsOf(top);
  lostBits = std::max(rankBits + placeBits - 64, 0);
}

uint64_t Entries::rankOf(uint64_t key) const {
  uint64_t rank = std::min(key - least, top);
  return isTurned ? top - rank : rank;
}

uint64_t Entries::rankAt(int64_t place) const {
  uint64_t key;
  writeKeys(numbers + place * itemSize(dtype), dtype, 1, &key, 1);
  return rankOf(key);
}

void Entries::write(int64_t first, int64_t count, Entry *entries) const {
  // The compiler knows that no entry is a member of a copy.
  const Entries own = *this;
  constexpr int64_t block = 256; // stays in the first cache
  for (int64_t end = first + count; first < end; first += block) {
    int64_t size = std::min(block, end - first);
    writeKeys(numbers + first * itemSize(dtype), dtype, size, entries, 1);
    for (int64_t i = 0; i < size; ++i)
      entries[i] =
          own.rankOf(entries[i]) >> own.lostBits << own.placeBits | (first + i);
    entries += size;
  }
}

void Entries::sort(std::vector<Entry> &entries,
                   std::vector<Entry> &spare) const {
  int64_t count = entries.size();
  if (count < shortList)
    return sortRun(entries.data(), entries.data() + count, 64);
  int end = placeBits + rankBits - lostBits;
  int begin =
      lostBits ? std::max(end - sortedBits(placeBits), placeBits) : placeBits;
  radixSort(entries, spare, begin, end);
  if (lostBits)
    sortRuns(entries, begin);
}

/// Sorts what has equal bits from `sorted` on.
void Entries::sortRuns(std::vector<Entry> &entries, int sorted) const {
  Entry *at = entries.data(), *end = at + entries.size();
  while (at < end) {
    Entry *next = at + 1;
    while (next < end && *next >> sorted == *at >> sorted)
      ++next;
    if (next - at > 1)
      sortRun(at, next, sorted);
    at = next;
  }
}

/// Sorts entries that have equal bits from `sorted` on. What the digits left of
/// their ranks fits into a word with a place, so long runs need no comparison.
void Entries::sortRun(Entry *begin, Entry *end, int sorted) const {
  int64_t count = end - begin;
  if (count < shortList && !lostBits)
    return std::sort(begin, end);
  if (count < shortList)
    return std::sort(begin, end, [&](Entry a, Entry b) {
      return isBefore(a, b) || (!isBefore(b, a) && placeOf(a) < placeOf(b));
    });
  int bits = sorted - placeBits + lostBits;
  uint64_t mask = (uint64_t(1) << bits) - 1;
  std::vector<Entry> run(count), spare(count);
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = placeOf(begin[i]);
    run[i] = (rankAt(place) & mask) << placeBits | place;
  }
  radixSort(run, spare, placeBits, placeBits + bits);
  for (int64_t i = 0; i < count; ++i)
    write(placeOf(run[i]), 1, begin + i);
}

} // namespace anabranch::selection
