//===- Entries.cpp - keys and places in one word --------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Entries.h"

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

} // namespace

std::optional<PackedEntries> PackedEntries::of(const void *numbers, DType dtype,
                                               int64_t count, Order order) {
  KeyRange range =
      itemSize(dtype) <= 4 ? rangeOf(dtype) : rangeOf(numbers, dtype, count);
  PackedEntries entries;
  entries.least = range.least;
  // Numbers that all are NaN have no range; they are of one rank then.
  uint64_t span = range.most < range.least ? 0 : range.most - range.least;
  entries.top = span + hasNan(dtype);
  entries.rankBits = bitsOf(entries.top);
  entries.placeBits = std::max(bitsOf(count - 1), 1);
  entries.isTurned = order == Order::LargestFirst;
  if (entries.rankBits + entries.placeBits > 64)
    return std::nullopt;
  return entries;
}

} // namespace anabranch::selection
