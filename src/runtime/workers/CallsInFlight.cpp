//===- CallsInFlight.cpp - calls take turns when CPUs are few -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/CallsInFlight.h"

#include "machine/host/DefaultThreads.h"
#include "process/Fork.h"
#include "runtime/workers/Futex.h"
#include "runtime/workers/Pinning.h"

#include <algorithm>
#include <ctime>
#include <sched.h>
#include <unistd.h>

namespace anabranch::runtime {

namespace {

/// The work of a caller between two calls takes less than this.
constexpr int64_t moment = 10'000'000; // nanoseconds

int64_t coarseNow() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

CallLimits limitsOfMachine() {
  machine::DefaultThreads &machine = machine::DefaultThreads::get();
  return {machine.usableCores(), machine.usableCpus()};
}

struct OfThisMachine : CallsInFlight {
  OfThisMachine() : CallsInFlight(limitsOfMachine) {}
};

/// The child of a fork has none of the threads whose calls ran. Never
/// destroyed, since workers ask until the process ends.
ForkLocal<OfThisMachine> &inFlight = *new ForkLocal<OfThisMachine>;

/// Whether somebody gave this thread CPUs of its own. The number of CPUs of the
/// process then says nothing about it.
bool isBound() {
  cpu_set_t process, thread = cpusOfThisThread();
  return ::sched_getaffinity(::getpid(), sizeof(process), &process) != 0 ||
         !CPU_EQUAL(&process, &thread);
}

} // namespace

CallsInFlight &CallsInFlight::get() { return inFlight.get(); }

CallsInFlight::CallsInFlight(CallLimits (*limits)())
    : limits(limits), depth(forkDepth()) {}

void CallsInFlight::enter(bool waits) {
  CallLimits now = limits();
  crowd.store(std::max(now.alone, 2), std::memory_order_relaxed);
  most.store(now.most, std::memory_order_relaxed);
  if (!waits)
    state.fetch_add(oneRunning, std::memory_order_acq_rel);
  else if (!enterAtOnce())
    waitForTurn();
  noteOthers(running());
}

bool CallsInFlight::enterAtOnce() {
  uint64_t before = state.load(std::memory_order_relaxed);
  while (mayEnter(before))
    if (state.compare_exchange_weak(before, before + oneRunning,
                                    std::memory_order_acq_rel,
                                    std::memory_order_relaxed))
      return true;
  return false;
}

void CallsInFlight::waitForTurn() {
  if (isBound()) {
    state.fetch_add(oneRunning, std::memory_order_acq_rel);
    return;
  }
  Waiter self;
  {
    std::lock_guard<std::mutex> lock(queue);
    uint64_t before = state.load(std::memory_order_relaxed), after;
    do {
      after = before + (mayEnter(before) ? oneRunning : oneWaiting);
    } while (!state.compare_exchange_weak(
        before, after, std::memory_order_acq_rel, std::memory_order_relaxed));
    if (waitingIn(after) == waitingIn(before))
      return;
    (first ? last->next : first) = &self;
    last = &self;
  }
  while (self.itsTurn.load(std::memory_order_acquire) == 0)
    futexWait(self.itsTurn, 0);
}

/// The call that has waited longest takes the place of this one.
void CallsInFlight::leave() {
  if (forkDepth() != depth)
    return; // the call began before a fork
  uint64_t before = state.load(std::memory_order_relaxed);
  noteOthers(runningIn(before));
  bool hands;
  do {
    hands = waitingIn(before) > 0 &&
            runningIn(before) <= most.load(std::memory_order_relaxed);
  } while (!state.compare_exchange_weak(
      before, before - (hands ? oneWaiting : oneRunning),
      std::memory_order_acq_rel, std::memory_order_relaxed));
  if (hands)
    wakeFirst();
}

void CallsInFlight::wakeFirst() {
  // A waiter is counted and put on the list under one lock.
  std::lock_guard<std::mutex> lock(queue);
  Waiter &waiter = *first;
  first = waiter.next;
  waiter.itsTurn.store(1, std::memory_order_release);
  futexWake(waiter.itsTurn, 1);
}

void CallsInFlight::noteOthers(int calls) {
  if (calls < 2)
    return;
  int64_t now = coarseNow();
  lastShared.store(now, std::memory_order_relaxed);
  if (calls >= crowd.load(std::memory_order_relaxed))
    lastCrowd.store(now, std::memory_order_relaxed);
}

static bool wasAMomentAgo(int64_t time) {
  return time != 0 && coarseNow() - time < moment;
}

bool CallsInFlight::wasCrowded() const {
  return isCrowded() ||
         wasAMomentAgo(lastCrowd.load(std::memory_order_relaxed));
}

bool CallsInFlight::isAlone() const {
  return running() < 2 &&
         !wasAMomentAgo(lastShared.load(std::memory_order_relaxed));
}

} // namespace anabranch::runtime
