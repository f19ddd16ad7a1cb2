//===- News.h - idle workers wait for something to claim --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_WORKERS_NEWS_H
#define ANABRANCH_RUNTIME_WORKERS_NEWS_H

#include "machine/processor/MemoryUnits.h"

#include <atomic>
#include <cstdint>

namespace anabranch::runtime {

/// Idle workers spin until something new can be claimed, and sleep after a
/// while. Any thread.
class News {
public:
  /// The number of the last news. Read it before looking for work.
  uint32_t latest() const { return epoch.load(std::memory_order_acquire); }

  /// Says that there is something new to claim, for about this many workers.
  void notify(int wanted) {
    // Either this thread sees that the other is parked, or the other sees the
    // news before it sleeps: no weaker order has that.
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (wanted > 0 && parked.load(std::memory_order_seq_cst) > 0)
      wake(wanted);
  }
  void notifyAll();

  /// Returns after news later than `seen`. Spins before it sleeps, if the
  /// container's quota has room for the caller, the workers before this one and
  /// this one.
  void await(int worker, uint32_t seen);
  /// Likewise without spinning.
  void sleep(uint32_t seen);

private:
  void wake(int count);

  alignas(machine::lineBytes) std::atomic<uint32_t> epoch{0};
  std::atomic<int> parked{0};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_NEWS_H
