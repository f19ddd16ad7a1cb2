//===- Job.cpp - a call that wants help -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/Job.h"

#include "anabranch/KernelABI.h"

#include <cstdlib>

namespace anabranch::runtime {

WorkerScratch::~WorkerScratch() { std::free(memory); }

void *WorkerScratch::reserve(size_t bytes) {
  if (bytes <= size)
    return memory;
  std::free(memory);
  contents = 0;
  size_t unit = ANABRANCH_BUFFER_ALIGNMENT;
  memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  size = memory ? bytes : 0;
  return memory;
}

} // namespace anabranch::runtime
