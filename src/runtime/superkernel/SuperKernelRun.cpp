//===- SuperKernelRun.cpp - a super kernel while it runs ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/SuperKernelRun.h"

namespace anabranch::runtime {

void SuperKernelRun::bind(std::shared_ptr<const ScheduledTasks> bound) {
  if (tasks == bound)
    return;
  // First: without memory for its counters, the run keeps its old tasks.
  size_t wanted = bound ? bound->graph.counters.size() / countersOfLine + 1 : 0;
  if (reserved < wanted) {
    counters.reset(new Line[wanted]);
    reserved = wanted;
  }
  tasks = std::move(bound);
  schedule = nullptr;
  if (tasks)
    clearCounters();
}

void SuperKernelRun::clearCounters() {
  for (size_t c = 0; c < graph().counters.size(); ++c)
    counterAt(static_cast<int>(c)).store(0, std::memory_order_relaxed);
  round = 0;
}

void SuperKernelRun::chooseSchedule(int workers) {
  schedule = &tasks->scheduleFor(workers);
  if (cursorCount < schedule->workers()) {
    cursors.reset(new Cursor[schedule->workers()]);
    cursorCount = schedule->workers();
  }
}

void SuperKernelRun::begin() {
  // The last call ended in the middle, with an error.
  if (unfinished.load(std::memory_order_relaxed) != 0)
    clearCounters();
  ++round;
  for (int q = 0; q < schedule->workers(); ++q)
    cursors[q].taken.store(0, std::memory_order_relaxed);
  slots.store(0, std::memory_order_relaxed);
  idle.store(0, std::memory_order_relaxed);
  unfinished.store(taskCount(), std::memory_order_relaxed);
}

static int firstFree(uint64_t taken) {
  return taken == ~uint64_t(0) ? 64 : __builtin_ctzll(~taken);
}

/// A thread takes the slot that it had last if that is free: its cache has that
/// queue's weights. If all slots are taken, the worker has none.
int SuperKernelRun::takeSlot() {
  static thread_local int usual = 0;
  uint64_t taken = slots.load(std::memory_order_relaxed);
  for (;;) {
    int slot = firstFree(taken | ((uint64_t(1) << usual) - 1));
    if (slot >= schedule->workers())
      slot = firstFree(taken);
    if (slot >= schedule->workers())
      return schedule->workers();
    if (slots.compare_exchange_weak(taken, taken | uint64_t(1) << slot,
                                    std::memory_order_relaxed)) {
      usual = slot;
      return slot;
    }
  }
}

void SuperKernelRun::leaveSlot(int slot) {
  if (slot < schedule->workers())
    slots.fetch_and(~(uint64_t(1) << slot), std::memory_order_relaxed);
}

/// The task at the front of a queue, if it is ready.
int SuperKernelRun::takeFrom(int queue) {
  std::atomic<uint32_t> &cursor = cursors[queue].taken;
  uint32_t at = cursor.load(std::memory_order_relaxed);
  while (at < length(queue)) {
    int task = taskAt(queue, at);
    if (!isReady(graph().tasks[task]))
      break;
    if (cursor.compare_exchange_weak(at, at + 1, std::memory_order_relaxed))
      return task;
  }
  return -1;
}

int SuperKernelRun::take(int slot, bool &steals) {
  int workers = schedule->workers();
  if (slot < workers)
    if (int task = takeFrom(slot); task >= 0) {
      steals = false;
      return task;
    }
  uint64_t taken = steals ? 0 : slots.load(std::memory_order_relaxed);
  for (int i = 1; i <= workers; ++i) {
    int queue = (slot + i) % workers;
    if (!(taken >> queue & 1))
      if (int task = takeFrom(queue); task >= 0)
        return task;
  }
  return -1;
}

bool SuperKernelRun::isTaken() const {
  for (int q = 0; q < schedule->workers(); ++q)
    if (cursors[q].taken.load(std::memory_order_relaxed) < length(q))
      return false;
  return true;
}

bool SuperKernelRun::isFrontReady(int queue) const {
  uint32_t at = cursors[queue].taken.load(std::memory_order_relaxed);
  return at < length(queue) && isReady(graph().tasks[taskAt(queue, at)]);
}

bool SuperKernelRun::isAnyReady() const {
  for (int q = 0; q < schedule->workers(); ++q)
    if (isFrontReady(q))
      return true;
  return false;
}

bool SuperKernelRun::wantsWorker() const {
  uint64_t taken = slots.load(std::memory_order_relaxed);
  for (int q = 0; q < schedule->workers(); ++q)
    if (!(taken >> q & 1) && isFrontReady(q))
      return true;
  return false;
}

int SuperKernelRun::next(int slot) const {
  if (slot >= schedule->workers())
    return -1;
  uint32_t at = cursors[slot].taken.load(std::memory_order_relaxed);
  return at < length(slot) ? taskAt(slot, at) : -1;
}

} // namespace anabranch::runtime
