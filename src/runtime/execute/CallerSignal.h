//===- CallerSignal.h - wake the thread that called the program -*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_EXECUTE_CALLERSIGNAL_H
#define ANABRANCH_RUNTIME_EXECUTE_CALLERSIGNAL_H

#include "runtime/workers/Futex.h"

namespace anabranch::runtime {

/// Lets workers tell the calling thread that something has changed. It looks
/// for work, waits for news that came after its look, and looks again.
class CallerSignal {
public:
  /// The number of the last news; ask before looking for work.
  uint32_t latest() const { return news.load(std::memory_order_seq_cst); }
  /// Something may interest the caller.
  void tell() {
    news.fetch_add(1, std::memory_order_seq_cst);
    if (sleeps.load(std::memory_order_seq_cst))
      futexWake(news, 1);
  }
  /// Keeps the core for a moment; false if there was no news after `seen`.
  bool spin(uint32_t seen) const;
  /// Returns at once if there was news after `seen`.
  void sleep(uint32_t seen);
  bool isAsleep() const { return sleeps.load(std::memory_order_relaxed); }

private:
  std::atomic<bool> sleeps{false};
  std::atomic<uint32_t> news{0};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_CALLERSIGNAL_H
