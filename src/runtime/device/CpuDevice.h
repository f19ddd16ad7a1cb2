//===- CpuDevice.h - kernels on the host's own cores ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_CPUDEVICE_H
#define ANABRANCH_RUNTIME_DEVICE_CPUDEVICE_H

#include "runtime/device/Device.h"

namespace anabranch::runtime {

class CpuDevice : public Device {
public:
  const char *name() const override { return "cpu"; }
  bool computes() const override { return true; }
  Expected<KernelEntry> bind(const Library *library,
                             const std::string &kernel) const override;
  void *allocate(size_t bytes) const override;
  void release(void *memory, size_t bytes) const override;
  void copy(const TensorView &from, const TensorView &to) const override;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_CPUDEVICE_H
