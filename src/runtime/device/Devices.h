//===- Devices.h - the list of devices --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_DEVICE_DEVICES_H
#define ANABRANCH_RUNTIME_DEVICE_DEVICES_H

#include "runtime/device/Device.h"

namespace anabranch::runtime {

/// Null if there is no such device.
const Device *findDevice(const std::string &name);
/// The names of all devices, "cpu, null", for messages.
std::string deviceNames();

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_DEVICE_DEVICES_H
