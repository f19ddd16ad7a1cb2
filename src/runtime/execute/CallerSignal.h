//===- CallerSignal.h - wake the thread that called the program -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_CALLERSIGNAL_H
#define ANABRANCH_RUNTIME_EXECUTE_CALLERSIGNAL_H

#include "runtime/workers/Futex.h"

namespace anabranch::runtime {

/// Wakes the calling thread when something has changed. The caller looks for
/// work, waits for a signal that came after its look, and looks again.
class CallerSignal {
public:
  /// The number of the last signal. Read it before looking for work.
  uint32_t latest() const { return news.load(std::memory_order_acquire); }
  /// Signals that there may be work for the caller.
  void tell() {
    // Either this thread sees that the caller sleeps, or the caller sees the
    // news before it does: no weaker order has that.
    news.fetch_add(1, std::memory_order_seq_cst);
    if (sleeps.load(std::memory_order_seq_cst))
      futexWake(news, 1);
  }
  /// Spins for a moment. False if there was no signal after `seen`.
  bool spin(uint32_t seen) const;
  /// Sleeps until a signal after `seen`; returns at once if there was one.
  void sleep(uint32_t seen);
  bool isAsleep() const { return sleeps.load(std::memory_order_relaxed); }

private:
  std::atomic<bool> sleeps{false};
  std::atomic<uint32_t> news{0};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_CALLERSIGNAL_H
