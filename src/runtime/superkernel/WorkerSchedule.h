//===- WorkerSchedule.h - which worker runs which task, and when *- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_WORKERSCHEDULE_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_WORKERSCHEDULE_H

#include "runtime/superkernel/TaskGraph.h"

namespace anabranch::runtime {

/// The tasks of a super kernel, in one queue for each worker. One order that
/// keeps every dependence goes through all queues together. So the first task
/// of that order which is not done is running or at the front of a queue,
/// whichever worker takes tasks.
struct WorkerSchedule {
  std::vector<int> tasks; ///< of all queues, one after the other
  std::vector<int>
      first; ///< by worker: its first task; at the end the number of all
  std::vector<int> order; ///< the order through all queues
  double time = 0;        ///< estimated nanoseconds until all workers are done

  int workers() const { return static_cast<int>(first.size()) - 1; }
};

/// List scheduling: a free worker takes a ready task, preferably one whose data
/// it made last.
WorkerSchedule scheduleTasks(const TaskGraph &graph, int workers);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_WORKERSCHEDULE_H
