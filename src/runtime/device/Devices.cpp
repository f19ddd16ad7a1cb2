//===- Devices.cpp - the list of devices ----------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/Devices.h"

#include "runtime/device/CpuDevice.h"
#include "runtime/device/NullDevice.h"

namespace anabranch::runtime {

namespace {
const CpuDevice cpu;
const NullDevice null;
const Device *const all[] = {&cpu, &null};
} // namespace

const Device *findDevice(const std::string &name) {
  for (const Device *device : all)
    if (name == device->name())
      return device;
  return nullptr;
}

std::string deviceNames() {
  std::string list;
  for (const Device *device : all)
    list += (list.empty() ? "" : ", ") + std::string(device->name());
  return list;
}

} // namespace anabranch::runtime
