//===- MachineReport.h - the machine in words -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_MACHINEREPORT_H
#define ANABRANCH_MACHINE_HOST_MACHINEREPORT_H

#include "machine/host/DefaultThreads.h"

namespace anabranch::machine {

/// One fact a line: name, value, source. `root` is the one given to `threads`.
std::string reportMachine(DefaultThreads &threads,
                          const std::string &root = "");

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_MACHINEREPORT_H
