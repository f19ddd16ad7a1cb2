//===- Device.h - what a kind of device does its own way --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_DEVICE_H
#define ANABRANCH_RUNTIME_DEVICE_DEVICE_H

#include "anabranch/KernelABI.h"
#include "anabranch/Status.h"
#include "anabranch/Tensor.h"
#include "runtime/device/Library.h"

#include <cstddef>
#include <string>

namespace anabranch::runtime {

/// A kernel, ready to be launched.
struct KernelEntry {
  anabranch_kernel_fn run = nullptr;
  anabranch_kernel_setup_fn setup = nullptr; ///< may be absent
  anabranch_kernel_plan_fn grid = nullptr;
  anabranch_kernel_footprint_fn footprint = nullptr; ///< may be absent
};

/// A kind of device that the executor can use. Stateless, never destroyed. Any
/// thread.
class Device {
public:
  virtual ~Device() = default;
  virtual const char *name() const = 0;

  /// Whether kernels of a package run on this device. The package's target must
  /// then fit the CPU.
  virtual bool computes() const = 0;

  /// Finds a kernel. `library` is null if the package has no kernels.
  virtual Expected<KernelEntry> bind(const Library *library,
                                     const std::string &kernel) const = 0;

  /// The memory is aligned to ANABRANCH_BUFFER_ALIGNMENT. Null if there is
  /// none.
  virtual void *allocate(size_t bytes) const = 0;
  virtual void release(void *memory, size_t bytes) const = 0;

  /// Copies a tensor. Both views have the same dtype and shape.
  virtual void copy(const TensorView &from, const TensorView &to) const = 0;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_DEVICE_H
