//===- TaskGraph.h - the tasks of a super kernel ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Made at load, once for each super kernel. Read by any number of threads.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPH_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPH_H

#include "runtime/superkernel/StridedRegion.h"

#include <vector>

namespace anabranch::runtime {

/// Some tiles of one launch, run by one worker at a time.
struct Task {
  int launch = 0, label = 0;
  int64_t tile = 0, tiles = 0; ///< the first, and how many
  int firstDependence = 0, dependences = 0;
  int firstSignal = 0, signals = 0;
};

/// Counters that share a cache line.
constexpr int countersOfLine = 16;

/// All tasks that signal the counter must be done.
struct Dependence {
  int counter, signals;
  bool operator==(const Dependence &o) const { return counter == o.counter; }
};

/// Constant bytes that a task reads: worth fetching before it can start.
struct ConstantRead {
  int operand = -1;     ///< in Commands::operands
  StridedRegion region; ///< from the operand's pointer
};

/// The tasks in an order that one worker may run, and the counters through
/// which a task that is done lets others start.
struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<Dependence> dependences;
  std::vector<int> signals; ///< counters that a task adds one to when done
  /// By counter: how many tasks signal it; 0 for padding between cache lines.
  std::vector<int> counters;
  std::vector<ConstantRead> constants; ///< by task
  std::vector<double> times;           ///< by task, estimated: nanoseconds
  std::vector<double> bytes;           ///< by task: what it writes
  std::vector<double> reads; ///< by task: what others may have written
  double serialTime = 0;     ///< of all tasks, on one worker
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPH_H
