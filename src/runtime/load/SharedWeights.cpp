//===- SharedWeights.cpp - weights that programs have in common -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/SharedWeights.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace anabranch::runtime {

std::pair<const void *, size_t> weightBytesOf(const Plan &plan,
                                              const BufferPlan &buffer) {
  if (buffer.bytes.slot() >= 0 || buffer.bytes.value() <= 0)
    return {nullptr, 0};
  auto size = static_cast<size_t>(buffer.bytes.value());
  if (buffer.kind == BufferKind::Constant)
    return {buffer.constant, size};
  if (buffer.kind == BufferKind::Persistent)
    return {static_cast<const char *>(plan.persistent) + buffer.offset.value(),
            size};
  return {nullptr, 0};
}

void SharedWeights::add(const Plan &plan) {
  for (const BufferPlan &buffer : plan.buffers) {
    auto [data, size] = weightBytesOf(plan, buffer);
    if (!data)
      continue;
    std::vector<const void *> &equal = places[size];
    if (std::find(equal.begin(), equal.end(), data) == equal.end())
      equal.push_back(data);
  }
}

const void *SharedWeights::find(const void *data, size_t size) const {
  auto equal = places.find(size);
  if (equal == places.end())
    return nullptr;
  for (const void *place : equal->second)
    if (std::memcmp(place, data, size) == 0)
      return place;
  return nullptr;
}

size_t dropAllBut(std::vector<std::pair<size_t, size_t>> ranges, void *memory,
                  size_t size) {
  auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  auto *base = static_cast<char *>(memory);
  // The distance from the start of a page to the memory's start.
  size_t skew = reinterpret_cast<uintptr_t>(memory) % page;
  size_t left = size, at = 0;
  ranges.push_back({size, size});
  std::sort(ranges.begin(), ranges.end());
  for (auto [begin, end] : ranges) {
    size_t from = (at + skew + page - 1) / page * page - skew;
    size_t to = (std::max(at, begin) + skew) / page * page;
    to -= std::min(to, skew);
    if (from < to && ::madvise(base + from, to - from, MADV_DONTNEED) == 0)
      left -= to - from;
    at = std::max(at, end);
  }
  return left;
}

} // namespace anabranch::runtime
