//===- TorchThreads.cpp - the user's number of threads --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/TorchThreads.h"

#include "anabranch/Executable.h"

#include <cstdint>
#include <dlfcn.h>

namespace anabranch::python {

namespace {

/// Of libtorch's stable C functions; 0 says that `*count` is set.
using GetThreads = int32_t (*)(uint32_t *count);

GetThreads getThreads = nullptr;

int torchThreads() {
  uint32_t count = 0;
  return getThreads(&count) == 0 ? static_cast<int>(count) : 0;
}

} // namespace

void followTorchThreads() {
  if (getThreads)
    return;
  void *library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library)
    return;
  getThreads =
      reinterpret_cast<GetThreads>(dlsym(library, "torch_get_num_threads"));
  if (getThreads)
    setFrameworkThreads(torchThreads);
}

} // namespace anabranch::python
