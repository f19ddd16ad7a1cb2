//===- Rows.cpp - selects and assigns rows by a mask ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "selection/Rows.h"

#include <cstring>

namespace anabranch::selection {

namespace {

/// Calls `use` with a function that copies `bytes`. Rows of one element have
/// functions of their own, which call no library. Empty rows may have no
/// memory.
template <typename Use> void withCopy(size_t bytes, Use use) {
  switch (bytes) {
  case 0:
    return;
  case 1:
    return use([](char *to, const char *from) { std::memcpy(to, from, 1); });
  case 2:
    return use([](char *to, const char *from) { std::memcpy(to, from, 2); });
  case 4:
    return use([](char *to, const char *from) { std::memcpy(to, from, 4); });
  case 8:
    return use([](char *to, const char *from) { std::memcpy(to, from, 8); });
  case 16:
    return use([](char *to, const char *from) { std::memcpy(to, from, 16); });
  default:
    return use(
        [=](char *to, const char *from) { std::memcpy(to, from, bytes); });
  }
}

} // namespace

void selectRows(const Mask &mask, const void *rows, size_t bytes,
                void *chosen) {
  const char *from = static_cast<const char *>(rows);
  char *to = static_cast<char *>(chosen);
  withCopy(bytes, [&](auto copy) {
    mask.forEach([&](int64_t position) {
      copy(to, from + static_cast<size_t>(position) * bytes);
      to += bytes;
    });
  });
}

void assignRows(const Mask &mask, const void *values, size_t step, size_t bytes,
                void *rows) {
  const char *from = static_cast<const char *>(values);
  char *to = static_cast<char *>(rows);
  withCopy(bytes, [&](auto copy) {
    mask.forEach([&](int64_t position) {
      copy(to + static_cast<size_t>(position) * bytes, from);
      from += step;
    });
  });
}

} // namespace anabranch::selection
