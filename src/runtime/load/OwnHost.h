//===- OwnHost.h - the host of a package that needs none --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_LOAD_OWNHOST_H
#define ANABRANCH_RUNTIME_LOAD_OWNHOST_H

#include "anabranch/HostCalls.h"
#include "runtime/device/Device.h"

namespace anabranch::runtime {

/// Takes the place of HostCalls where the caller gives none. It runs no
/// operator. It makes memory for tensors whose sizes the run finds.
class OwnHost final : public HostCalls {
public:
  explicit OwnHost(const Device &device) : device(device) {}

  Expected<void *> prepare(const char *op, const char *overload) override;
  Status call(const HostCall &call, HostResult *results) override;
  Expected<HostResult> make(const TensorView &like) override;
  void *retain(void *handle) override;
  void release(void *handle) override;

private:
  const Device &device;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_OWNHOST_H
