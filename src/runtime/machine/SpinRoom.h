//===- SpinRoom.h - whether idle workers may spin ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_MACHINE_SPINROOM_H
#define ANABRANCH_RUNTIME_MACHINE_SPINROOM_H

#include <atomic>
#include <cstdint>

namespace anabranch::runtime {

/// A worker that spins between two calls wakes at once, and spends CPU time. In
/// a control group with a quota that time is taken from the calls: when the
/// quota is spent, the kernel stops all threads until the next period. So
/// workers spin only while the quota has room for all of them.
class SpinRoom {
public:
  /// Once for each look at the machine, by one thread at a time: the quota in
  /// CPUs (0: none), and how often the group was throttled so far.
  void look(double quota, int64_t throttledPeriods);

  /// Threads of one call that may keep a CPU each. Any thread.
  int limit() const { return most.load(std::memory_order_relaxed); }

private:
  /// How many looks without throttling come before workers spin again. The
  /// number doubles each time that the group is throttled again.
  static constexpr int leastPatience = 2, mostPatience = 64;

  std::atomic<int> most{1};
  int64_t seenPeriods = -1; ///< -1: no look yet
  int patience = leastPatience;
  int waiting = 0; ///< looks until workers spin again
  int calm = 0;    ///< looks since the last throttling
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_MACHINE_SPINROOM_H
