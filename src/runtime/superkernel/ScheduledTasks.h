//===- ScheduledTasks.h - a task graph and its schedules --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_SCHEDULEDTASKS_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_SCHEDULEDTASKS_H

#include "runtime/superkernel/WorkerSchedule.h"

#include <array>
#include <atomic>

namespace anabranch::runtime {

/// A task graph, and a schedule for each number of workers that a call had so
/// far. Any thread.
class ScheduledTasks {
public:
  explicit ScheduledTasks(TaskGraph graph) : graph(std::move(graph)) {}
  ~ScheduledTasks();
  ScheduledTasks(const ScheduledTasks &) = delete;
  ScheduledTasks &operator=(const ScheduledTasks &) = delete;

  /// The schedule for this many workers. A call that finds none makes it.
  const WorkerSchedule &scheduleFor(int workers) const;

  const TaskGraph graph;

private:
  static constexpr int most = 64; ///< more workers share these queues
  mutable std::array<std::atomic<const WorkerSchedule *>, most> schedules{};
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_SCHEDULEDTASKS_H
