//===- SpinRoom.h - whether idle workers may spin ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_SPINROOM_H
#define ANABRANCH_MACHINE_HOST_SPINROOM_H

#include "machine/host/Patience.h"

#include <atomic>
#include <cstdint>

namespace anabranch::machine {

/// A worker that spins between two calls wakes at once, but spends CPU time. In
/// a control group with a quota, the calls lose that time: when the quota is
/// used up, the kernel stops all threads until the next period. So workers spin
/// only while the quota has room for all of them.
class SpinRoom {
public:
  /// Call it once for each look at the machine, by one thread at a time.
  /// `quota` is in CPUs (0: none); `throttledPeriods` says how often the group
  /// was throttled so far.
  void look(double quota, int64_t throttledPeriods);

  /// How many threads of one call may spin, each on a CPU of its own. Any
  /// thread.
  int limit() const { return most.load(std::memory_order_relaxed); }

private:
  std::atomic<int> most{1};
  int64_t seenPeriods = -1; ///< -1: no look yet
  Patience patience;
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_SPINROOM_H
