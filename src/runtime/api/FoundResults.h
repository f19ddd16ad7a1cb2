//===- FoundResults.h - results whose size the run finds --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_API_FOUNDRESULTS_H
#define ANABRANCH_RUNTIME_API_FOUNDRESULTS_H

#include "anabranch/Executable.h"
#include "runtime/device/Device.h"

namespace anabranch::runtime {

/// Copies each External output into memory of the caller, and releases it. No
/// output is External afterwards.
Status copyFoundResults(HostCalls &host, const Device &device,
                        OutputValue *outputs, size_t count,
                        OutputAllocator &allocator);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_API_FOUNDRESULTS_H
