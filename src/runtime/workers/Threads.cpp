//===- Threads.cpp - how many workers a call may use ----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "anabranch/Executable.h"
#include "runtime/machine/MachineReport.h"

namespace anabranch {

using runtime::DefaultThreads;

int defaultThreads() { return DefaultThreads::get().threads(); }

void setDefaultThreads(int threads) { DefaultThreads::get().setCall(threads); }

void setFrameworkThreads(int (*count)()) {
  DefaultThreads::get().setFramework(count);
}

std::string machineFacts() {
  return runtime::reportMachine(DefaultThreads::get());
}

} // namespace anabranch
