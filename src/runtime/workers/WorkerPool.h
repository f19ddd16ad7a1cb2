//===- WorkerPool.h - threads that help the calls in flight -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_WORKERS_WORKERPOOL_H
#define ANABRANCH_RUNTIME_WORKERS_WORKERPOOL_H

#include "machine/processor/MemoryUnits.h"
#include "process/Fork.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <sched.h>
#include <vector>

namespace anabranch::runtime {

class PinnedThread;

/// One worker's memory for a kernel's intermediate values.
class WorkerScratch {
public:
  ~WorkerScratch();
  /// Null if there is no memory.
  void *reserve(size_t bytes);

  /// The number of the setup that has filled the memory; 0: none.
  uint64_t contents = 0;

private:
  void *memory = nullptr;
  size_t size = 0;
};

/// A call that wants help. Several workers call `work` at once. None does after
/// `WorkerPool::leave` has returned.
class Job {
public:
  explicit Job(int helpers) : helpers(helpers), cpu(::sched_getcpu()) {}
  virtual ~Job() = default;
  /// Does one piece. False if there is nothing to claim now.
  virtual bool work(WorkerScratch &scratch) = 0;
  /// At most this many workers are inside at once.
  const int helpers;
  /// The CPU on which the caller runs. A worker there would take it from the
  /// caller.
  const int cpu;
};

/// The process's pool. The first call that wants help starts it, and again
/// after a fork. Its threads never own a call: the thread that entered a job
/// can always finish it alone, so calls from many threads never wait for each
/// other. Idle workers spin for some microseconds, if the container's quota has
/// room for them, then sleep. Any thread.
class WorkerPool {
public:
  static WorkerPool &get();

  /// Starts threads until there are this many, as far as the system allows.
  void ensure(int workers);
  /// Lets the pool's threads beyond this number end, each as soon as it is in
  /// no job. A call that needs more starts them again.
  static void shrink(int workers);

  /// Shows the job to the workers. -1 if too many jobs are in flight: the
  /// caller then works alone.
  int enter(Job &job);
  /// Returns when no worker is inside the job any more.
  void leave(int place);

  /// Says that there is something new to claim, for about this many workers.
  void notify(int wanted) {
    epoch.fetch_add(1, std::memory_order_seq_cst);
    if (wanted > 0 && parked.load(std::memory_order_seq_cst) > 0)
      wake(wanted);
  }

  int size() const { return threads.load(std::memory_order_relaxed); }

private:
  friend struct WorkerThread;
  friend class ForkLocal<WorkerPool>;

  struct alignas(machine::lineBytes) Place {
    std::atomic<uint64_t> state{
        0}; ///< flags below, and the number of workers inside
    std::atomic<Job *> job{nullptr};
  };
  static constexpr uint64_t open = uint64_t(1) << 63;
  static constexpr uint64_t reserved = uint64_t(1) << 62;
  static constexpr int placeCount = 16;

  WorkerPool() = default;
  void wake(int count);
  void loop(int worker, PinnedThread pinned);
  bool mayEnd(int worker);
  enum class Turn : uint8_t { Worked, NothingToDo, InTheWay };
  Turn help(WorkerScratch &scratch, int &first, PinnedThread &thread);
  void waitForNews(int worker, uint32_t seen);
  void sleep(uint32_t seen);

  Place places[placeCount];
  alignas(machine::lineBytes) std::atomic<uint32_t> epoch{0};
  std::atomic<int> parked{0};
  std::atomic<int> threads{0}; ///< workers with a smaller number stay
  std::mutex growing;          ///< guards `running` and changes of `threads`
  std::vector<bool> running;   ///< by number, those about to end included
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_WORKERPOOL_H
