//===- ScheduledTasks.cpp - a task graph and its schedules ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/superkernel/ScheduledTasks.h"

#include <algorithm>

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
  std::lock_guard<std::mutex> lock(making);
  if (!entry.load(std::memory_order_relaxed))
    entry.store(new WorkerSchedule(scheduleTasks(graph, workers)),
                std::memory_order_release);
  return *entry.load(std::memory_order_relaxed);
}

} // namespace anabranch::runtime
