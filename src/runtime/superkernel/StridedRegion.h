//===- StridedRegion.h - which bytes a tile may touch -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_STRIDEDREGION_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_STRIDEDREGION_H

#include "anabranch/KernelABI.h"

#include <optional>

namespace anabranch::runtime {

/// The bytes [begin + i * pitch, begin + i * pitch + width) of one memory, for
/// 0 <= i < count: one run, or several with gaps between them.
struct StridedRegion {
  int64_t begin = 0, width = 0, pitch = 0, count = 1;

  bool isRun() const { return count == 1; }
  int64_t end() const { return begin + (count - 1) * pitch + width; }
  int64_t bytes() const { return count * width; }
  bool operator==(const StridedRegion &o) const {
    return begin == o.begin && width == o.width && pitch == o.pitch &&
           count == o.count;
  }
};

/// What a kernel says, from `base` on; nothing where it touches no byte. A
/// region with impossible addresses stands for all bytes.
std::optional<StridedRegion> regionOf(const anabranch_strided_region &said,
                                      int64_t base);

/// Whether there is a byte in both: exact where one is a run, where both have
/// the same pitch, and where one has few runs; else perhaps true without one.
bool meets(const StridedRegion &a, const StridedRegion &b);

/// Lets `into` have the bytes of both, and no other; false if one region
/// cannot.
bool join(StridedRegion &into, const StridedRegion &other);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_STRIDEDREGION_H
