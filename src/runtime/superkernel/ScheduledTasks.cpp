//===- ScheduledTasks.cpp - a task graph and its schedules ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/ScheduledTasks.h"

#include <algorithm>
#include <memory>

namespace anabranch::runtime {

ScheduledTasks::~ScheduledTasks() {
  for (auto &schedule : schedules)
    delete schedule.load(std::memory_order_relaxed);
}

const WorkerSchedule &ScheduledTasks::scheduleFor(int workers) const {
  workers = std::min(std::max(workers, 1), most);
  std::atomic<const WorkerSchedule *> &entry = schedules[workers - 1];
  if (const WorkerSchedule *known = entry.load(std::memory_order_acquire))
    return *known;
  // Threads that ask at once make it each, and the first one's is kept. A lock
  // could stay taken in the child of a fork.
  auto made =
      std::make_unique<const WorkerSchedule>(scheduleTasks(graph, workers));
  const WorkerSchedule *first = nullptr;
  if (entry.compare_exchange_strong(first, made.get(),
                                    std::memory_order_acq_rel))
    return *made.release();
  return *first;
}

} // namespace anabranch::runtime
