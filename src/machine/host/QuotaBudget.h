//===- QuotaBudget.h - whether a quota has time for one more ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_MACHINE_HOST_QUOTABUDGET_H
#define ANABRANCH_MACHINE_HOST_QUOTABUDGET_H

#include "machine/host/Patience.h"

#include <atomic>
#include <cstdint>

namespace anabranch::machine {

/// The part of a quota that whole CPUs leave over. With a quota of 1.5 CPUs one
/// thread leaves a third of the time unused, and two threads are throttled
/// after three quarters of each period. So some calls have two threads, as many
/// as the quota pays for: the budget grows with the clock and shrinks with the
/// CPU time of the process.
class QuotaBudget {
public:
  /// Whether this quota has whole CPUs and a part of one.
  static bool sharesOut(double quota);

  /// Call it once for each look at the machine, by one thread at a time.
  /// `quota` is in CPUs (0: none); `throttledPeriods` says how often the group
  /// was throttled so far.
  void look(double quota, int64_t throttledPeriods);

  /// Whether there is a part of a CPU to give out. Any thread.
  bool isOpen() const { return quota.load(std::memory_order_relaxed) > 0; }
  /// Whether a call that begins now may have one thread more than the quota has
  /// whole CPUs. `now` is a clock, `used` is the CPU time of the process so
  /// far, both in nanoseconds. Any thread.
  bool hasRoom(int64_t now, int64_t used);

private:
  /// The part of the quota that the calls plan with: periods of the kernel
  /// begin anywhere, and other threads run too.
  static constexpr double planned = 0.99;
  /// Nanoseconds of CPU time that an idle process saves up at most, and that a
  /// process owes at most after work that had no budget.
  static constexpr double mostSaved = 5e6, mostOwed = 100e6;
  /// Throttled periods between two looks that other processes of the group, and
  /// not the calls, must have caused.
  static constexpr int64_t fewPeriods = 4;

  std::atomic<double> quota{0}; ///< 0: there is nothing to give out
  int64_t seenPeriods = -1;     ///< -1: no look yet
  Patience patience;

  std::atomic_flag counting = ATOMIC_FLAG_INIT; ///< guards what follows
  double saved = 0;                             ///< nanoseconds of CPU time
  int64_t lastNow = 0, lastUsed = 0;            ///< of the last `hasRoom`
  std::atomic<bool> last{true};                 ///< what it returned
};

} // namespace anabranch::machine

#endif // ANABRANCH_MACHINE_HOST_QUOTABUDGET_H
