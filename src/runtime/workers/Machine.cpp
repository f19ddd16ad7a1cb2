//===- Machine.cpp - threads and memory that calls may use ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "anabranch/Machine.h"
#include "machine/host/ControlGroups.h"
#include "machine/host/MachineReport.h"
#include "runtime/workers/BorrowedTeam.h"
#include "runtime/workers/WorkerPool.h"

namespace anabranch {

using machine::DefaultThreads;

int defaultThreads() {
  DefaultThreads &choice = DefaultThreads::get();
  int threads = choice.threads();
  // One of the threads is the caller.
  if (choice.hasShrunk())
    runtime::WorkerPool::shrink(threads - 1);
  return threads;
}

void setDefaultThreads(int threads) {
  DefaultThreads::get().setCall(threads);
  runtime::WorkerPool::shrink(defaultThreads() - 1);
}

void setFrameworkThreads(int (*count)()) {
  DefaultThreads::get().setFramework(count);
}

std::string machineFacts() {
  return machine::reportMachine(DefaultThreads::get()) +
         "whose threads help: " + runtime::whoHelps(defaultThreads()) + "\n";
}

std::optional<int64_t> memoryRoom() {
  auto room = machine::ControlGroups().memoryRoom();
  return room ? std::optional<int64_t>(room->bytes) : std::nullopt;
}

} // namespace anabranch
