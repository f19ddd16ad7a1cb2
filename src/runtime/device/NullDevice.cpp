//===- NullDevice.cpp - everything but arithmetic -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/NullDevice.h"

namespace anabranch::runtime {

Expected<KernelEntry> NullDevice::bind(const Library *,
                                       const std::string &) const {
  KernelEntry entry;
  entry.run = [](void *const *, const int64_t *, void *, int64_t) -> int32_t {
    return ANABRANCH_KERNEL_OK;
  };
  entry.grid = [](const int64_t *, anabranch_kernel_plan *plan) {
    *plan = {/*tiles=*/8, /*scratch_bytes=*/64};
  };
  return entry;
}

} // namespace anabranch::runtime
