//===- TaskGraphCache.h - a super kernel's tasks for its sizes --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The tasks of a super kernel are a function of its sizes. If the program fixes
// these, `load` makes and proves one task graph. Else calls bind them: the
// second call with the same sizes makes and proves a graph, which later calls
// find. The first one runs the members as launches, so that sizes which come
// only once cost no graph.

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPHCACHE_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPHCACHE_H

#include "runtime/plan/Plan.h"
#include "runtime/superkernel/ScheduledTasks.h"

#include <memory>
#include <mutex>
#include <vector>

namespace anabranch::runtime {

/// The task graphs of one super kernel. Any thread. The plan must outlive it.
class TaskGraphCache {
public:
  using Tasks = std::shared_ptr<const ScheduledTasks>;

  TaskGraphCache(const Plan &plan, const Commands &commands,
                 const SuperKernel &super);

  /// Makes the graph of a super kernel whose sizes are known. Call it once the
  /// plan has its buffers.
  Status load();

  /// The tasks for a call's size table. Null: the call runs the members as
  /// launches. An error if the graph does not keep the order of its tiles.
  Expected<Tasks> find(const std::vector<int64_t> &slots) const;

  /// Whether the program fixes all sizes.
  bool isStatic() const { return slotsUsed.empty(); }
  /// Forgets the graphs of all bindings. Calls in flight keep theirs.
  void trim() const;

  /// At most so many bindings, and so many tasks of theirs, are kept.
  static constexpr size_t mostBindings = 64, mostTasks = 1 << 16;

private:
  /// Sizes that a call had, and their graph; none after the first call.
  struct Entry {
    std::vector<int64_t> binding;
    Tasks tasks;
    size_t count() const { return tasks ? tasks->graph.tasks.size() : 0; }
  };

  Expected<Tasks> make(const std::vector<int64_t> &slots) const;
  Tasks keep(const std::vector<int64_t> &binding, Tasks made) const;
  std::vector<int64_t> bindingOf(const std::vector<int64_t> &slots) const;
  bool moveToFront(const std::vector<int64_t> &binding) const;
  void dropOldest() const;

  const Plan &plan;
  const Commands &commands;
  const SuperKernel &super;
  /// The slots that the sizes and buffers of the members use.
  std::vector<int> slotsUsed;
  Tasks fixed; ///< if all sizes are known
  mutable std::mutex mutex;
  mutable std::vector<Entry> entries; ///< the latest used first
};

/// The super kernels of a plan, in order.
using SuperKernels = std::vector<std::unique_ptr<const TaskGraphCache>>;

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_TASKGRAPHCACHE_H
