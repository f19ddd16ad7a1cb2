//===- SuperKernelRun.h - a super kernel while it runs ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Counters only count up, also from call to call, so that no call has to reset
// them. A worker takes a slot and works through its queue. Any worker may take
// the task at the front of any queue by compare-and-swap, but only when that
// task is ready: no worker waits inside a task.

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_SUPERKERNELRUN_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_SUPERKERNELRUN_H

#include "runtime/superkernel/ScheduledTasks.h"

#include <cstdint>
#include <memory>

namespace anabranch::runtime {

/// The state of one super kernel in a call's frame.
class SuperKernelRun {
public:
  /// Takes the tasks that calls run from now on. Null: calls run the members
  /// as launches.
  void bind(std::shared_ptr<const ScheduledTasks> tasks);
  bool isBound() const { return tasks != nullptr; }

  /// Chooses the schedule for this many workers. The first call with a number
  /// allocates memory.
  void chooseSchedule(int workers);
  /// Call it before the call's workers can see the run.
  void begin();

  /// Whether several workers would be done sooner than one.
  bool isWorthSharing() const {
    return schedule->time < worthwhile * graph().serialTime;
  }
  /// The nanoseconds that several workers save.
  double saved() const { return graph().serialTime - schedule->time; }
  int taskCount() const { return static_cast<int>(graph().tasks.size()); }

  /// Takes a free worker slot for this thread. If no slot is free, returns the
  /// number of slots: such a worker has no queue of its own and runs tasks of
  /// others. A worker takes one slot at most.
  int takeSlot();
  void leaveSlot(int slot);

  /// Takes a ready task, which the caller then runs, or returns -1. It comes
  /// from the slot's own queue, which resets `steals`; else from a queue whose
  /// slot is free; else, if the caller `steals`, from any queue.
  int take(int slot, bool &steals);
  const Task &operator[](int task) const { return graph().tasks[task]; }
  /// Signals the counters of a task that is done. A worker that is about to
  /// leave counts itself idle and then reads counters; this one writes counters
  /// and then reads `idle`. All four are sequentially consistent, so that one
  /// of the two sees the other.
  void signal(int task) {
    const Task &t = graph().tasks[task];
    for (int s = 0; s < t.signals; ++s)
      counterAt(graph().signals[t.firstSignal + s])
          .fetch_add(1, std::memory_order_seq_cst);
  }
  /// Counts tasks as done. True for the last of all, once.
  bool finish(int tasks) {
    return unfinished.fetch_sub(tasks, std::memory_order_acq_rel) == tasks;
  }

  /// Whether workers have taken all tasks.
  bool isTaken() const;
  bool isAnyReady() const;
  /// Whether one more worker would find a ready task at once.
  bool wantsWorker() const;
  /// The next task of the slot's queue; -1 after the last, and for a worker
  /// without a queue.
  int next(int slot) const;
  const ConstantRead &constantOf(int task) const {
    return graph().constants[task];
  }

  /// Workers that left because no task was ready.
  std::atomic<int> idle{0};

private:
  static constexpr double worthwhile = 0.9;
  struct alignas(machine::lineBytes) Cursor {
    std::atomic<uint32_t> taken{0};
  };
  struct alignas(machine::lineBytes) Line {
    std::atomic<uint32_t> values[countersOfLine]{};
  };

  std::atomic<uint32_t> &counterAt(int counter) const {
    return counters[counter / countersOfLine].values[counter % countersOfLine];
  }

  bool isReady(const Task &task) const {
    for (int d = 0; d < task.dependences; ++d) {
      const Dependence &on = graph().dependences[task.firstDependence + d];
      uint32_t wanted = round * static_cast<uint32_t>(on.signals);
      uint32_t now = counterAt(on.counter).load(std::memory_order_seq_cst);
      if (static_cast<int32_t>(now - wanted) < 0)
        return false;
    }
    return true;
  }
  int takeFrom(int queue);
  bool isFrontReady(int queue) const;
  uint32_t length(int queue) const {
    return static_cast<uint32_t>(schedule->first[queue + 1] -
                                 schedule->first[queue]);
  }
  int taskAt(int queue, uint32_t place) const {
    return schedule->tasks[schedule->first[queue] + static_cast<int>(place)];
  }

  const TaskGraph &graph() const { return tasks->graph; }
  void clearCounters();

  std::shared_ptr<const ScheduledTasks> tasks;
  const WorkerSchedule *schedule = nullptr;
  std::unique_ptr<Line[]> counters;
  size_t reserved = 0;               ///< lines of `counters`
  std::unique_ptr<Cursor[]> cursors; ///< by queue
  int cursorCount = 0;
  /// Calls since the counters were zero. A counter is complete at `round *
  /// signals`.
  uint32_t round = 0;
  alignas(machine::lineBytes) std::atomic<int> unfinished{0};
  alignas(machine::lineBytes) std::atomic<uint64_t> slots{
      0}; ///< a bit for each slot that is taken
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_SUPERKERNELRUN_H
