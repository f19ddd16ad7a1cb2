//===- NullDevice.h - everything but arithmetic -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_NULLDEVICE_H
#define ANABRANCH_RUNTIME_DEVICE_NULLDEVICE_H

#include "runtime/device/CpuDevice.h"

namespace anabranch::runtime {

/// A device whose kernels do nothing, in several tiles. It tests streams,
/// events, memory plans and workers without kernels, on any machine. The
/// outputs of a kernel keep the bytes that the memory had.
class NullDevice : public CpuDevice {
public:
  const char *name() const override { return "null"; }
  bool computes() const override { return false; }
  Expected<KernelEntry> bind(const Library *library,
                             const std::string &kernel) const override;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_NULLDEVICE_H
