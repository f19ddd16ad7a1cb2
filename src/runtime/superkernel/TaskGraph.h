//===- TaskGraph.h - the tasks of a super kernel ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The runtime makes a task graph at load, once for each super kernel. Any
// number of threads may read it.

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPH_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPH_H

#include "machine/processor/MemoryUnits.h"
#include "runtime/superkernel/StridedRegion.h"

#include <vector>

namespace anabranch::runtime {

/// Some tiles of one launch. One worker runs them together.
struct Task {
  int launch = 0, label = 0;
  int64_t tile = 0, tiles = 0; ///< first tile, and number of tiles
  int firstDependence = 0, dependences = 0;
  int firstSignal = 0, signals = 0;
};

/// How many counters share a cache line.
constexpr int countersOfLine = machine::lineBytes / sizeof(uint32_t);

/// The task waits until all tasks that signal the counter are done.
struct Dependence {
  int counter, signals;
  bool operator==(const Dependence &o) const { return counter == o.counter; }
};

/// Bytes of constants that a task reads. A worker prefetches them before the
/// task can start.
struct ConstantRead {
  int operand = -1;     ///< in Commands::operands
  StridedRegion region; ///< from the operand's pointer
};

/// The tasks in an order in which one worker may run them, and the counters
/// through which a finished task lets others start.
struct TaskGraph {
  std::vector<Task> tasks;
  std::vector<Dependence> dependences;
  std::vector<int> signals; ///< counters that a finished task counts up
  /// By counter: how many tasks signal it. Zero for padding between cache
  /// lines.
  std::vector<int> counters;
  std::vector<ConstantRead> constants; ///< by task
  std::vector<double> times;           ///< by task, estimated: nanoseconds
  std::vector<double> bytes;           ///< by task: bytes that it writes
  std::vector<double> reads; ///< by task: bytes that other tasks may write
  double serialTime = 0;     ///< of all tasks, on one worker
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPH_H
