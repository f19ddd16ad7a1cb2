//===- WorkerSchedule.h - which worker runs which task, and when *- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_WORKERSCHEDULE_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_WORKERSCHEDULE_H

#include "runtime/superkernel/TaskGraph.h"

namespace anabranch::runtime {

/// The tasks of a super kernel, one queue for each worker. All queues together
/// are in one order that keeps every dependence, so that the first task that is
/// not done is at the front of a queue or running, whichever worker takes
/// tasks.
struct WorkerSchedule {
  std::vector<int> tasks; ///< of all queues, one after the other
  std::vector<int> first; ///< by worker, and the number of all
  std::vector<int> order; ///< the one order
  double time = 0;        ///< nanoseconds that the workers need, estimated

  int workers() const { return static_cast<int>(first.size()) - 1; }
};

/// List scheduling: a worker that is free takes a task that is ready, of those
/// whose data it made the latest.
WorkerSchedule scheduleTasks(const TaskGraph &graph, int workers);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_WORKERSCHEDULE_H
