//===- SuperRun.cpp - a super kernel while it runs ------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/SuperRun.h"

namespace anabranch::runtime {

SuperRun::SuperRun(const SuperPlan &super)
    : super(super),
      counters(new Line[super.counters.size() / countersOfLine + 1]) {}

void SuperRun::plan(int workers) {
  queues = &super.queuesFor(workers);
  if (headCount < queues->workers()) {
    heads.reset(new Word[queues->workers()]);
    headCount = queues->workers();
  }
}

void SuperRun::begin() {
  // An error has left the last call in the middle.
  if (unfinished.load(std::memory_order_relaxed) != 0) {
    for (size_t c = 0; c < super.counters.size(); ++c)
      counterAt(static_cast<int>(c)).store(0, std::memory_order_relaxed);
    call = 0;
  }
  ++call;
  for (int q = 0; q < queues->workers(); ++q)
    heads[q].value.store(0, std::memory_order_relaxed);
  seats.store(0, std::memory_order_relaxed);
  away.store(0, std::memory_order_relaxed);
  unfinished.store(itemCount(), std::memory_order_relaxed);
}

static int firstFree(uint64_t taken) {
  return taken == ~uint64_t(0) ? 64 : __builtin_ctzll(~taken);
}

/// A thread sits where it sat last, if it can: it has read the weights there.
/// More workers than lists have none of their own.
int SuperRun::sit() {
  static thread_local int usual = 0;
  uint64_t taken = seats.load(std::memory_order_relaxed);
  for (;;) {
    int seat = firstFree(taken | ((uint64_t(1) << usual) - 1));
    if (seat >= queues->workers())
      seat = firstFree(taken);
    if (seat >= queues->workers())
      return queues->workers();
    if (seats.compare_exchange_weak(taken, taken | uint64_t(1) << seat,
                                    std::memory_order_relaxed)) {
      usual = seat;
      return seat;
    }
  }
}

void SuperRun::rise(int seat) {
  if (seat < queues->workers())
    seats.fetch_and(~(uint64_t(1) << seat), std::memory_order_relaxed);
}

/// The head of a list, if it is ready.
int SuperRun::takeFrom(int queue) {
  std::atomic<uint32_t> &head = heads[queue].value;
  uint32_t at = head.load(std::memory_order_relaxed);
  while (at < length(queue)) {
    int item = itemAt(queue, at);
    if (!isReady(super.items[item]))
      break;
    if (head.compare_exchange_weak(at, at + 1, std::memory_order_relaxed))
      return item;
  }
  return -1;
}

int SuperRun::take(int seat, bool &helps) {
  int workers = queues->workers();
  if (seat < workers)
    if (int item = takeFrom(seat); item >= 0) {
      helps = false;
      return item;
    }
  uint64_t taken = helps ? 0 : seats.load(std::memory_order_relaxed);
  for (int i = 1; i <= workers; ++i) {
    int queue = (seat + i) % workers;
    if (!(taken >> queue & 1))
      if (int item = takeFrom(queue); item >= 0)
        return item;
  }
  return -1;
}

bool SuperRun::isTaken() const {
  for (int q = 0; q < queues->workers(); ++q)
    if (heads[q].value.load(std::memory_order_relaxed) < length(q))
      return false;
  return true;
}

bool SuperRun::isHeadReady(int queue) const {
  uint32_t at = heads[queue].value.load(std::memory_order_relaxed);
  return at < length(queue) && isReady(super.items[itemAt(queue, at)]);
}

bool SuperRun::isAnyReady() const {
  for (int q = 0; q < queues->workers(); ++q)
    if (isHeadReady(q))
      return true;
  return false;
}

bool SuperRun::wantsWorker() const {
  uint64_t taken = seats.load(std::memory_order_relaxed);
  for (int q = 0; q < queues->workers(); ++q)
    if (!(taken >> q & 1) && isHeadReady(q))
      return true;
  return false;
}

int SuperRun::next(int seat) const {
  if (seat >= queues->workers())
    return -1;
  uint32_t at = heads[seat].value.load(std::memory_order_relaxed);
  return at < length(seat) ? itemAt(seat, at) : -1;
}

} // namespace anabranch::runtime
