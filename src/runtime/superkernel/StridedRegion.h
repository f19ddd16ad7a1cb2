//===- StridedRegion.h - which bytes a tile may touch -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

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

/// The region that a kernel reports from a buffer's pointer, for a buffer at
/// `base`; none if it holds no byte. A region with impossible addresses becomes
/// all bytes.
std::optional<StridedRegion> regionAt(const anabranch_strided_region &reported,
                                      int64_t base);

/// Whether the two share a byte. Exact if one is a single run, if both have the
/// same pitch, or if one has few runs. Else it may be true although they share
/// none.
bool meets(const StridedRegion &a, const StridedRegion &b);

/// Extends `into` by exactly the bytes of `other`. False if one region cannot
/// express that.
bool join(StridedRegion &into, const StridedRegion &other);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_STRIDEDREGION_H
