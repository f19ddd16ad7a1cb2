//===- Executable.cpp - open a package ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Executable.h"

#include "anabranch/Copies.h"
#include "runtime/api/LoadedExecutable.h"
#include "runtime/execute/Execute.h"
#include "runtime/workers/BorrowedTeam.h"
#include "runtime/workers/Pinning.h"

namespace anabranch {

OutputAllocator::~OutputAllocator() = default;

Status OutputAllocator::allocateFound(OutputValue &, size_t index) {
  return Status(StatusCode::Unsupported,
                "the run decides the size of output " + std::to_string(index) +
                    ", and the caller gives no memory for such results");
}

HostCalls::~HostCalls() = default;
void *HostCalls::retain(void *) { return nullptr; }

Expected<HostResult> HostCalls::make(const TensorView &) {
  return Status(StatusCode::Unsupported,
                "the host makes no tensors whose size the program finds");
}

Status HostCalls::poll() { return {}; }

Executable::~Executable() = default;

const char *version() { return ANABRANCH_VERSION; }

Expected<std::shared_ptr<const Executable>>
Executable::open(const std::string &path, const OpenOptions &options) {
  try {
    trace::Recorder::startFromEnvironment();
    if (Status s = runtime::pinFromEnvironment(); !s.ok())
      return s;
    if (Status s = runtime::executionFromEnvironment(); !s.ok())
      return s;
    if (Status s = runtime::teamFromEnvironment(); !s.ok())
      return s;
    auto executable = std::make_shared<runtime::LoadedExecutable>();
    if (Status s = executable->load(path, options); !s.ok())
      return s;
    return std::shared_ptr<const Executable>(std::move(executable));
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  } catch (const std::exception &e) {
    return Status(StatusCode::Internal, e.what());
  }
}

uint64_t copiedArguments(const Executable &executable) {
  return static_cast<const runtime::LoadedExecutable &>(executable)
      .copiedArguments();
}

} // namespace anabranch
