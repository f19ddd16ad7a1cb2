//===- MachineLimits.h - what this machine can do, measured -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_LIMITS_MACHINELIMITS_H
#define ANABRANCH_MACHINE_LIMITS_MACHINELIMITS_H

#include "machine/limits/MeasureMachine.h"

#include <functional>
#include <string>

namespace anabranch::machine {

/// Reads the limits of this machine from the cache folder, or measures them
/// (half a second) and stores them there. If the folder cannot be written, each
/// process measures them once. Any thread.
const MachineLimits &machineLimits();

/// The limits that the file has for this CPU. If it has none, or limits whose
/// measurement was disturbed, `measure` is called, and the better figures are
/// stored. A machine that is always busy is measured in three processes.
MachineLimits keptLimits(const std::string &file, const std::string &cpu,
                         const std::function<MachineLimits()> &measure);

/// The same limits as the text of a JSON object.
std::string describeLimits();

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_LIMITS_MACHINELIMITS_H
