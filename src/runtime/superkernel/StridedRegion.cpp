//===- StridedRegion.cpp - which bytes a tile may touch -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/StridedRegion.h"

#include <algorithm>

namespace anabranch::runtime {

namespace {

/// An address bound beyond any memory. Sums of a few such numbers do not
/// overflow.
constexpr int64_t farthest = int64_t(1) << 56;

constexpr StridedRegion everything{-4 * farthest, 8 * farthest, 0, 1};

/// Up to this many runs are compared one by one with runs of another pitch.
constexpr int64_t fewRuns = 64;

int64_t floorDivide(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// Whether the run [begin, end) meets one of `runs`.
bool meetsRun(const StridedRegion &runs, int64_t begin, int64_t end) {
  // The first run that ends after `begin`.
  int64_t i = floorDivide(begin - runs.begin - runs.width, runs.pitch) + 1;
  i = std::max<int64_t>(i, 0);
  return i < runs.count && runs.begin + i * runs.pitch < end;
}

/// For two regions of one pitch. Run i of `a` and run j of `b` meet if (i - j)
/// * pitch lies between two bounds.
bool meetsInStep(const StridedRegion &a, const StridedRegion &b) {
  int64_t distance = b.begin - a.begin;
  int64_t least = floorDivide(distance - a.width, a.pitch) + 1;
  int64_t most = -floorDivide(-(distance + b.width), a.pitch) - 1;
  return std::max(least, 1 - b.count) <= std::min(most, a.count - 1);
}

} // namespace

std::optional<StridedRegion> regionAt(const anabranch_strided_region &reported,
                                      int64_t base) {
  if (reported.width <= 0 || reported.count <= 0)
    return std::nullopt;
  int64_t span;
  auto isFar = [](int64_t n) { return n > farthest || n < -farthest; };
  if (__builtin_mul_overflow(reported.count - 1, reported.pitch, &span) ||
      isFar(span) || isFar(reported.offset) || isFar(reported.width) ||
      isFar(base))
    return everything;
  StridedRegion region{base + reported.offset, reported.width, 0, 1};
  int64_t pitch = reported.pitch;
  if (span < 0) {
    region.begin += span;
    pitch = -pitch;
    span = -span;
  }
  if (pitch <= region.width) {
    region.width += span;
  } else if (reported.count > 1) {
    region.pitch = pitch;
    region.count = reported.count;
  }
  return region;
}

bool meets(const StridedRegion &a, const StridedRegion &b) {
  if (a.end() <= b.begin || b.end() <= a.begin)
    return false;
  if (a.isRun())
    return b.isRun() || meetsRun(b, a.begin, a.end());
  if (b.isRun())
    return meetsRun(a, b.begin, b.end());
  if (a.pitch == b.pitch)
    return meetsInStep(a, b);
  const StridedRegion &fewer = a.count < b.count ? a : b;
  const StridedRegion &more = a.count < b.count ? b : a;
  if (fewer.count > fewRuns)
    return true;
  for (int64_t i = 0; i < fewer.count; ++i) {
    int64_t begin = fewer.begin + i * fewer.pitch;
    if (meetsRun(more, begin, begin + fewer.width))
      return true;
  }
  return false;
}

bool join(StridedRegion &into, const StridedRegion &other) {
  int64_t begin = std::min(into.begin, other.begin);
  int64_t end = std::max(into.begin + into.width, other.begin + other.width);
  bool touch = std::max(into.begin, other.begin) <=
               std::min(into.begin + into.width, other.begin + other.width);
  // The two have runs beside each other, in every row.
  if (touch && into.pitch == other.pitch && into.count == other.count) {
    int64_t width = end - begin;
    if (!into.isRun() && width >= into.pitch)
      into = {begin, (into.count - 1) * into.pitch + width, 0, 1};
    else
      into = {begin, width, into.pitch, into.count};
    return true;
  }
  // The rows of one continue those of the other.
  if (!into.isRun() && into.pitch == other.pitch && into.width == other.width &&
      other.begin == into.begin + into.count * into.pitch) {
    into.count += other.count;
    return true;
  }
  return false;
}

} // namespace anabranch::runtime
