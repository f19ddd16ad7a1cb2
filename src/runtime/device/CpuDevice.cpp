//===- CpuDevice.cpp - kernels on the host's own cores --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/CpuDevice.h"

#include "machine/processor/MemoryUnits.h"
#include "runtime/device/StridedCopy.h"

#include <cstdlib>
#include <sys/mman.h>

namespace anabranch::runtime {

namespace {
/// Blocks of at least a huge page start at one and ask for more. Kernels walk
/// packed weights and arenas in strides that would miss the TLB.
constexpr size_t hugePage = machine::hugePageBytes;
} // namespace

Expected<KernelEntry> CpuDevice::bind(const Library *library,
                                      const std::string &kernel) const {
  KernelEntry entry;
  if (library) {
    entry.run = reinterpret_cast<anabranch_kernel_fn>(library->symbol(kernel));
    entry.setup = reinterpret_cast<anabranch_kernel_setup_fn>(
        library->symbol(kernel + "_setup"));
    entry.grid = reinterpret_cast<anabranch_kernel_plan_fn>(
        library->symbol(kernel + "_plan"));
    entry.footprint = reinterpret_cast<anabranch_kernel_footprint_fn>(
        library->symbol(kernel + "_footprint"));
  }
  if (!entry.run || !entry.grid)
    return Status(StatusCode::BadPackage,
                  "kernels.so lacks the kernel " + kernel);
  return entry;
}

void *CpuDevice::allocate(size_t bytes) const {
  if (bytes < hugePage) {
    size_t unit = ANABRANCH_BUFFER_ALIGNMENT;
    return std::aligned_alloc(unit, (bytes + unit) / unit * unit);
  }
  if (bytes > SIZE_MAX - hugePage)
    return nullptr;
  bytes = (bytes + hugePage - 1) / hugePage * hugePage;
  void *memory = std::aligned_alloc(hugePage, bytes);
  if (memory)
    ::madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

void CpuDevice::release(void *memory, size_t) const { std::free(memory); }

void CpuDevice::copy(const TensorView &from, const TensorView &to) const {
  stridedCopy(from, to);
}

} // namespace anabranch::runtime
