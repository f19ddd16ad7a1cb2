//===- Pinning.h - which CPUs workers run on --------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_WORKERS_PINNING_H
#define ANABRANCH_RUNTIME_WORKERS_PINNING_H

#include "anabranch/Executable.h"

#include <chrono>
#include <sched.h>

namespace anabranch::runtime {

struct PinningChoice;

/// Pins as ANABRANCH_PIN says, unless somebody has chosen already. Every call
/// says so again if the variable is wrong.
Status pinFromEnvironment();

/// The CPUs of one worker. Belongs to its thread.
class PinnedThread {
public:
  explicit PinnedThread(int worker);

  /// Moves the thread if the choice has changed.
  void follow();

  /// Whether the thread runs on this CPU and could leave it.
  bool isInTheWay(int cpu) const { return mayMove && ::sched_getcpu() == cpu; }
  /// Leaves the CPU until another one is to be avoided. False when that has
  /// just been asked for another CPU: there is no room.
  bool avoid(int cpu);

private:
  const int worker;
  const PinningChoice *seen = nullptr;
  bool mayMove; ///< nobody has said where to run, and there is a choice
  std::chrono::steady_clock::time_point lastMove;
  cpu_set_t inherited;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_PINNING_H
