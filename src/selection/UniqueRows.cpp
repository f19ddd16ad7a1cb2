//===- UniqueRows.cpp - the different rows of a tensor --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/UniqueRows.h"

#include "selection/Keys.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace anabranch::selection {

UniqueRows::UniqueRows(const void *numbers, DType dtype, RowShape shape,
                       Among among)
    : numbers(numbers), dtype(dtype), shape(shape), order(shape.rows) {
  findKeys();
  std::iota(order.begin(), order.end(), int64_t(0));
  if (among == Among::All)
    sortOrder();
  for (int64_t i = 0; i < shape.rows; ++i)
    if (i == 0 || !areEqual(order[i - 1], order[i]))
      firsts.push_back(i);
}

void UniqueRows::findKeys() {
  keys.resize(shape.rows * width());
  size_t bytes = static_cast<size_t>(shape.inner) * itemSize(dtype);
  const char *from = static_cast<const char *>(numbers);
  for (int64_t outer = 0; outer < shape.outer; ++outer)
    for (int64_t row = 0; row < shape.rows; ++row, from += bytes)
      writeKeys(from, dtype, shape.inner,
                keys.data() + row * width() + outer * shape.inner, 1);
}

void UniqueRows::sortOrder() {
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const uint64_t *one = keys.data() + a * width();
    const uint64_t *other = keys.data() + b * width();
    auto differs = std::mismatch(one, one + width(), other);
    // Equal rows keep their order.
    return differs.first == one + width() ? a < b
                                          : *differs.first < *differs.second;
  });
}

bool UniqueRows::areEqual(int64_t row, int64_t other) const {
  const uint64_t *one = keys.data() + row * width();
  if (!std::equal(one, one + width(), keys.data() + other * width()))
    return false;
  return !hasNan(dtype) ||
         std::find(one, one + width(), nanKey) == one + width();
}

void UniqueRows::writeRows(void *rows) const {
  size_t bytes = static_cast<size_t>(shape.inner) * itemSize(dtype);
  if (bytes == 0)
    return;
  const char *from = static_cast<const char *>(numbers);
  char *to = static_cast<char *>(rows);
  for (int64_t outer = 0; outer < shape.outer; ++outer) {
    for (int64_t first : firsts) {
      std::memcpy(to, from + static_cast<size_t>(order[first]) * bytes, bytes);
      to += bytes;
    }
    from += static_cast<size_t>(shape.rows) * bytes;
  }
}

void UniqueRows::writeInverse(int64_t *inverse) const {
  int64_t number = -1;
  for (int64_t i = 0; i < shape.rows; ++i) {
    if (number + 1 < size() && firsts[number + 1] == i)
      ++number;
    inverse[order[i]] = number;
  }
}

void UniqueRows::writeCounts(int64_t *counts) const {
  for (int64_t i = 0; i < size(); ++i)
    counts[i] = (i + 1 < size() ? firsts[i + 1] : shape.rows) - firsts[i];
}

} // namespace anabranch::selection
