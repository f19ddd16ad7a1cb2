//===- WorkerPool.h - threads that help the calls in flight -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_WORKERS_WORKERPOOL_H
#define ANABRANCH_RUNTIME_WORKERS_WORKERPOOL_H

#include "machine/processor/MemoryUnits.h"
#include "process/Fork.h"
#include "runtime/workers/Job.h"
#include "runtime/workers/News.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace anabranch::runtime {

class PinnedThread;

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
  void notify(int wanted) { news.notify(wanted); }

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
  void loop(int worker, PinnedThread pinned);
  bool mayEnd(int worker);
  enum class Turn : uint8_t { Worked, NothingToDo, InTheWay };
  Turn help(WorkerScratch &scratch, int &first, PinnedThread &thread);

  Place places[placeCount];
  News news;
  std::atomic<int> threads{0}; ///< workers with a smaller number stay
  std::mutex growing;          ///< guards `running` and changes of `threads`
  std::vector<bool> running;   ///< by number, those about to end included
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_WORKERPOOL_H
