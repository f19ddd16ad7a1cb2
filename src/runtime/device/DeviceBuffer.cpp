//===- DeviceBuffer.cpp - memory that grows on demand ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/DeviceBuffer.h"

namespace anabranch::runtime {

bool DeviceBuffer::suffices(size_t wanted) {
  constexpr size_t slack = size_t(16) << 20;
  constexpr int patience = 64;
  if (wanted > size)
    return false;
  timesTooLarge = size / 4 > wanted + slack ? timesTooLarge + 1 : 0;
  return timesTooLarge < patience;
}

bool DeviceBuffer::reserve(size_t wanted) {
  if (suffices(wanted))
    return true;
  reset();
  if (wanted == 0)
    return true;
  memory = device.allocate(wanted);
  size = memory ? wanted : 0;
  return memory != nullptr;
}

void DeviceBuffer::reset() {
  if (memory)
    device.release(memory, size);
  memory = nullptr;
  size = 0;
  timesTooLarge = 0;
}

} // namespace anabranch::runtime
