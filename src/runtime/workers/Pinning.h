//===- Pinning.h - which CPUs workers run on --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_WORKERS_PINNING_H
#define ANABRANCH_RUNTIME_WORKERS_PINNING_H

#include "anabranch/Executable.h"

#include <chrono>
#include <sched.h>

namespace anabranch::runtime {

struct PinningChoice;

/// Pins workers as ANABRANCH_PIN says, unless the program has called
/// pinWorkers. Each call returns the error again if the variable is wrong.
Status pinFromEnvironment();

/// Whether workers are bound to CPUs.
bool areWorkersPinned();

/// The CPUs on which this thread may run; an empty set if they are not known.
cpu_set_t cpusOfThisThread();

/// The CPUs of one worker. It belongs to the worker's thread.
class PinnedThread {
public:
  /// `inherited` are the CPUs of the thread that starts the worker. Before the
  /// worker first runs, others may have bound it.
  PinnedThread(int worker, const cpu_set_t &inherited);

  /// Moves the thread if the choice has changed.
  void follow();

  /// Whether the thread runs on this CPU and may leave it.
  bool isInTheWay(int cpu) const { return mayMove && ::sched_getcpu() == cpu; }
  /// Keeps off this CPU until the thread is asked to avoid another one. False
  /// if it was just asked to avoid another CPU: there is no room for it.
  bool avoid(int cpu);

private:
  const int worker;
  const PinningChoice *seen = nullptr;
  bool mayMove; ///< nothing binds the thread, and it has more than one CPU
  std::chrono::steady_clock::time_point lastMove;
  const cpu_set_t inherited;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_PINNING_H
