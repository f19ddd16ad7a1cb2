//===- Mask.cpp - which elements of a tensor are true ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Mask.h"

#include <algorithm>
#include <cstring>

namespace anabranch::selection {

namespace {

constexpr int64_t bitsOfWord = 64;

/// A complex number of two doubles.
struct Pair {
  uint64_t real, imaginary;
};

/// Only bits under `significant` tell a number from zero: a float has a sign.
template <typename T> bool isTrue(T element, T significant) {
  return (element & significant) != 0;
}
bool isTrue(Pair element, Pair significant) {
  return ((element.real & significant.real) |
          (element.imaginary & significant.imaginary)) != 0;
}

/// Eight bytes of zero or one as eight bits.
uint64_t packBytes(const uint8_t *flags) {
  uint64_t bytes;
  std::memcpy(&bytes, flags, sizeof(bytes));
  return (bytes * 0x0102040810204080u) >> 56;
}

uint64_t packWord(const uint8_t *flags) {
  uint64_t word = 0;
  for (int i = 0; i < 8; ++i)
    word |= packBytes(flags + 8 * i) << (8 * i);
  return word;
}

template <typename T>
void fillWords(const void *memory, T significant, int64_t count,
               std::vector<uint64_t> &words) {
  const T *elements = static_cast<const T *>(memory);
  for (size_t word = 0; word < words.size(); ++word) {
    uint8_t flags[bitsOfWord] = {};
    int64_t first = static_cast<int64_t>(word) * bitsOfWord;
    int64_t size = std::min(bitsOfWord, count - first);
    for (int64_t i = 0; i < size; ++i)
      flags[i] = isTrue(elements[first + i], significant);
    words[word] = packWord(flags);
  }
}

} // namespace

Mask::Mask(const void *elements, DType dtype, int64_t count)
    : words((count + bitsOfWord - 1) / bitsOfWord) {
  constexpr uint16_t half = 0x7fff;
  constexpr uint32_t single = 0x7fffffff;
  constexpr uint64_t real = ~uint64_t(0) >> 1;
  switch (dtype) {
  case DType::F16:
  case DType::BF16:
    fillWords<uint16_t>(elements, half, count, words);
    break;
  case DType::F32:
    fillWords<uint32_t>(elements, single, count, words);
    break;
  case DType::F64:
    fillWords<uint64_t>(elements, real, count, words);
    break;
  case DType::C32:
    fillWords<uint32_t>(elements, 0x7fff7fff, count, words);
    break;
  case DType::C64:
    fillWords<uint64_t>(elements, 0x7fffffff7fffffff, count, words);
    break;
  case DType::C128:
    fillWords<Pair>(elements, Pair{real, real}, count, words);
    break;
  case DType::F8E4M3FN:
  case DType::F8E5M2:
    fillWords<uint8_t>(elements, 0x7f, count, words);
    break;
  default:
    if (itemSize(dtype) == 1)
      fillWords<uint8_t>(elements, 0xff, count, words);
    else if (itemSize(dtype) == 2)
      fillWords<uint16_t>(elements, 0xffff, count, words);
    else if (itemSize(dtype) == 4)
      fillWords<uint32_t>(elements, ~uint32_t(0), count, words);
    else
      fillWords<uint64_t>(elements, ~uint64_t(0), count, words);
  }
  for (uint64_t word : words)
    found += __builtin_popcountll(word);
}

void writePositions(const Mask &mask, const int64_t *shape, int32_t rank,
                    int64_t *positions) {
  if (rank == 0)
    return;
  if (rank == 1)
    return mask.forEach([&](int64_t position) { *positions++ = position; });
  // The indices of the row in which positions lie, and where it begins.
  std::vector<int64_t> row(rank);
  int64_t begin = 0, inner = shape[rank - 1];
  mask.forEach([&](int64_t position) {
    for (; position - begin >= inner; begin += inner)
      for (int32_t dim = rank - 2; dim >= 0 && ++row[dim] == shape[dim]; --dim)
        row[dim] = 0;
    positions = std::copy(row.begin(), row.end() - 1, positions);
    *positions++ = position - begin;
  });
}

} // namespace anabranch::selection
