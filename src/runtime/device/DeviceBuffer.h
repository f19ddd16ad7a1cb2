//===- DeviceBuffer.h - memory that grows on demand -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_DEVICEBUFFER_H
#define ANABRANCH_RUNTIME_DEVICE_DEVICEBUFFER_H

#include "runtime/device/Device.h"

namespace anabranch::runtime {

/// A buffer that grows on demand. Growing discards its contents.
class DeviceBuffer {
public:
  explicit DeviceBuffer(const Device &device) : device(device) {}
  ~DeviceBuffer() { reset(); }
  DeviceBuffer(const DeviceBuffer &) = delete;
  DeviceBuffer &operator=(const DeviceBuffer &) = delete;

  /// Whether the buffer is large enough, and was not far too large for several
  /// calls in a row. Calls of different sizes take turns, but one very large
  /// shape must not keep its memory forever.
  bool suffices(size_t wanted);
  /// False if there is no memory. The buffer is empty then.
  bool reserve(size_t wanted);
  void reset();
  void *get() const { return memory; }
  size_t bytes() const { return size; }

private:
  const Device &device;
  void *memory = nullptr;
  size_t size = 0;
  int timesTooLarge = 0; ///< in a row
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_DEVICEBUFFER_H
