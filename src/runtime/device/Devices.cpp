//===- Devices.cpp - the list of devices ----------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/device/Devices.h"

#include "runtime/device/CpuDevice.h"
#include "runtime/device/NullDevice.h"

namespace anabranch::runtime {

namespace {
const Device *const *begin() {
  static const CpuDevice cpu;
  static const NullDevice null;
  static const Device *const all[] = {&cpu, &null, nullptr};
  return all;
}
} // namespace

const Device *findDevice(const std::string &name) {
  for (const Device *const *device = begin(); *device; ++device)
    if (name == (*device)->name())
      return *device;
  return nullptr;
}

std::string deviceNames() {
  std::string list;
  for (const Device *const *device = begin(); *device; ++device)
    list += (list.empty() ? "" : ", ") + std::string((*device)->name());
  return list;
}

} // namespace anabranch::runtime
