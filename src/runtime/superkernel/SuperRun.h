//===- SuperRun.h - a super kernel while it runs ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Counters only go up, from call to call too, so that a call writes none of
// them before it begins. A worker takes a seat, whose list it works through;
// heads of lists are taken by compare-and-swap, by anybody, but only when the
// item there is ready: nobody waits inside an item.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_SUPERRUN_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_SUPERRUN_H

#include "runtime/superkernel/SuperPlan.h"

#include <atomic>
#include <cstdint>
#include <memory>

namespace anabranch::runtime {

/// What a frame keeps of one super kernel.
class SuperRun {
public:
  explicit SuperRun(const SuperPlan &super);

  /// The first call with so many workers needs memory.
  void plan(int workers);
  /// Before the call's workers see it.
  void begin();

  /// Whether several workers would be done sooner than one.
  bool isWorthSharing() const {
    return queues->time < worthwhile * super.serialTime;
  }
  /// Nanoseconds that they would save.
  double saved() const { return super.serialTime - queues->time; }
  int itemCount() const { return static_cast<int>(super.items.size()); }

  int sit();
  void rise(int seat);

  /// An item that is ready, now the caller's to run: of the seat's own list,
  /// else of one that nobody sits at, else, if the caller `helps`, of any. An
  /// item of its own ends its help. -1: none is ready.
  int take(int seat, bool &helps);
  const SuperItem &operator[](int item) const { return super.items[item]; }
  /// Says that the item is done to those that wait for it.
  void signal(int item) {
    const SuperItem &i = super.items[item];
    for (int s = 0; s < i.signals; ++s)
      counterAt(super.signals[i.firstSignal + s])
          .fetch_add(1, std::memory_order_release);
  }
  /// Counts items as done; true for the last of all, once.
  bool finish(int items) {
    return unfinished.fetch_sub(items, std::memory_order_acq_rel) == items;
  }

  /// Whether all items have been taken.
  bool isTaken() const;
  bool isAnyReady() const;
  /// Whether an item is ready that only a worker more would run at once.
  bool wantsWorker() const;
  /// The item that the seat takes next; -1 after the last.
  int next(int seat) const;
  const SuperFetch &fetchOf(int item) const { return super.fetches[item]; }

  /// Workers that left for want of ready items.
  std::atomic<int> away{0};

private:
  static constexpr double worthwhile = 0.9;
  struct alignas(64) Word {
    std::atomic<uint32_t> value{0};
  };
  struct alignas(64) Line {
    std::atomic<uint32_t> values[countersOfLine]{};
  };

  std::atomic<uint32_t> &counterAt(int counter) const {
    return counters[counter / countersOfLine].values[counter % countersOfLine];
  }

  bool isReady(const SuperItem &item) const {
    for (int w = 0; w < item.waits; ++w) {
      const SuperWait &wait = super.waits[item.firstWait + w];
      uint32_t wanted = call * static_cast<uint32_t>(wait.signals);
      uint32_t now = counterAt(wait.counter).load(std::memory_order_acquire);
      if (static_cast<int32_t>(now - wanted) < 0)
        return false;
    }
    return true;
  }
  int takeFrom(int queue);
  bool isHeadReady(int queue) const;
  uint32_t length(int queue) const {
    return static_cast<uint32_t>(queues->first[queue + 1] -
                                 queues->first[queue]);
  }
  int itemAt(int queue, uint32_t place) const {
    return queues->items[queues->first[queue] + static_cast<int>(place)];
  }

  const SuperPlan &super;
  const SuperQueues *queues = nullptr;
  std::unique_ptr<Line[]> counters;
  std::unique_ptr<Word[]> heads; ///< by list: how many items were taken
  int headCount = 0;
  uint32_t call = 0; ///< how often every counter has been reached
  alignas(64) std::atomic<int> unfinished{0};
  alignas(64) std::atomic<uint64_t> seats{0}; ///< taken ones, a bit for each
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_SUPERRUN_H
