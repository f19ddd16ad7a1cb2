//===- Device.h - what a kind of device does its own way --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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
  anabranch_kernel_plan_fn grid = nullptr;
  anabranch_kernel_footprint_fn footprint = nullptr; ///< may be absent
};

/// The executor works with any of these. Stateless and immortal; any thread.
class Device {
public:
  virtual ~Device() = default;
  virtual const char *name() const = 0;

  /// Whether kernels of the package run here, so that its CPU must fit.
  virtual bool computes() const = 0;

  /// `library` is null when the package has no kernels.
  virtual Expected<KernelEntry> bind(const Library *library,
                                     const std::string &kernel) const = 0;

  /// Aligned to ANABRANCH_BUFFER_ALIGNMENT; null when there is no memory.
  virtual void *allocate(size_t bytes) const = 0;
  virtual void release(void *memory, size_t bytes) const = 0;

  /// Both views have the same dtype and shape.
  virtual void copy(const TensorView &from, const TensorView &to) const = 0;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_DEVICE_H
