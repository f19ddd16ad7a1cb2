//===- MachineLimits.h - what this machine can do, measured -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_LIMITS_MACHINELIMITS_H
#define ANABRANCH_MACHINE_LIMITS_MACHINELIMITS_H

#include "machine/limits/MeasureMachine.h"

namespace anabranch::machine {

/// Reads the limits of this machine from the cache folder, or measures them
/// (half a second) and stores them there. If the folder cannot be written, each
/// process measures them once. Any thread.
const MachineLimits &machineLimits();

/// The same limits as the text of a JSON object.
std::string describeLimits();

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_LIMITS_MACHINELIMITS_H
