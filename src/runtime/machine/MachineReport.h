//===- MachineReport.h - the machine in words -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_MACHINE_MACHINEREPORT_H
#define ANABRANCH_RUNTIME_MACHINE_MACHINEREPORT_H

#include "runtime/machine/DefaultThreads.h"

namespace anabranch::runtime {

/// One fact a line: name, value, source. `root` is the one given to `threads`.
std::string reportMachine(DefaultThreads &threads,
                          const std::string &root = "");

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_MACHINE_MACHINEREPORT_H
