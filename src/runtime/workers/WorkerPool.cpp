//===- WorkerPool.cpp - threads that help the calls in flight -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/workers/WorkerPool.h"

#include "runtime/workers/CallsInFlight.h"
#include "runtime/workers/Futex.h"
#include "runtime/workers/Pinning.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <pthread.h>
#include <sched.h>
#include <signal.h>

namespace anabranch::runtime {

namespace {

/// A worker does this many pieces for one call before it looks at the others.
constexpr int turn = 64;

/// The child of a fork has none of the pool's threads. Never destroyed: they
/// run until the process ends.
ForkLocal<WorkerPool> &pools = *new ForkLocal<WorkerPool>;

} // namespace

/// The arguments of a new thread.
struct WorkerThread {
  WorkerPool *pool;
  int worker;
  cpu_set_t inherited;

  static void *main(void *argument) {
    WorkerThread self = *static_cast<WorkerThread *>(argument);
    delete static_cast<WorkerThread *>(argument);
    char name[16];
    std::snprintf(name, sizeof(name), "anabranch-%d", self.worker + 1);
    ::pthread_setname_np(::pthread_self(), name);
    self.pool->loop(self.worker, PinnedThread(self.worker, self.inherited));
    return nullptr;
  }

  static bool start(WorkerPool *pool, int worker) {
    auto *argument =
        new (std::nothrow) WorkerThread{pool, worker, cpusOfThisThread()};
    if (!argument)
      return false;
    // Blocks all signals in workers: they are for the threads that the program
    // made.
    sigset_t all, before;
    sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    bool started = ::pthread_create(&thread, nullptr, main, argument) == 0;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (started)
      ::pthread_detach(thread);
    else
      delete argument;
    return started;
  }
};

WorkerPool &WorkerPool::get() { return pools.get(); }

void WorkerPool::ensure(int workers) {
  if (size() >= workers)
    return;
  std::lock_guard<std::mutex> lock(growing);
  if (running.size() < static_cast<size_t>(workers))
    running.resize(static_cast<size_t>(workers));
  for (int n = size(); n < workers; ++n) {
    // A worker that was told to end but has not ended yet goes on instead.
    if (!running[n] && !WorkerThread::start(this, n))
      return;
    running[n] = true;
    threads.store(n + 1, std::memory_order_relaxed);
  }
}

void WorkerPool::shrink(int workers) {
  WorkerPool *pool = pools.find();
  if (!pool || pool->size() <= workers)
    return;
  {
    std::lock_guard<std::mutex> lock(pool->growing);
    pool->threads.store(std::min(pool->size(), std::max(workers, 0)),
                        std::memory_order_relaxed);
  }
  pool->news.notifyAll();
}

/// Whether this worker is superfluous. If so, it does not count as running from
/// now on.
bool WorkerPool::mayEnd(int worker) {
  if (worker < size())
    return false;
  std::lock_guard<std::mutex> lock(growing);
  if (worker < size())
    return false;
  running[worker] = false;
  return true;
}

int WorkerPool::enter(Job &job) {
  for (int i = 0; i < placeCount; ++i) {
    uint64_t free = 0;
    if (places[i].state.load(std::memory_order_relaxed) != 0 ||
        !places[i].state.compare_exchange_strong(free, reserved,
                                                 std::memory_order_acquire))
      continue;
    // Opening the place publishes the job.
    places[i].job.store(&job, std::memory_order_relaxed);
    // A worker that finds the place closed may be counted at this moment, so
    // the count must be kept.
    places[i].state.fetch_xor(open | reserved, std::memory_order_release);
    return i;
  }
  return -1;
}

void WorkerPool::leave(int place) {
  std::atomic<uint64_t> &state = places[place].state;
  state.fetch_xor(open | reserved, std::memory_order_acq_rel);
  // The workers' writes are visible once they have left: each leaves by a
  // release. Workers inside find nothing to claim and leave in a moment, unless
  // one was interrupted. That one may need this core.
  for (int spins = 0; state.load(std::memory_order_acquire) != reserved;)
    if (++spins < 1000)
      pause();
    else
      ::sched_yield();
  state.fetch_and(~reserved, std::memory_order_release);
}

/// Looks at every place, each time starting from another one, and works at each
/// for at most one turn. So calls in flight get about equally many workers. A
/// worker on a caller's CPU leaves that CPU, or does not help: otherwise the
/// caller would stand still.
WorkerPool::Turn WorkerPool::help(WorkerScratch &scratch, int &first,
                                  PinnedThread &thread) {
  Turn result = Turn::NothingToDo;
  if (CallsInFlight::get().isCrowded())
    return result;
  first = (first + 1) % placeCount;
  for (int i = 0; i < placeCount; ++i) {
    Place &place = places[(first + i) % placeCount];
    if (!(place.state.load(std::memory_order_relaxed) & open))
      continue;
    uint64_t before = place.state.fetch_add(1, std::memory_order_acquire);
    if (before & open) {
      Job *job = place.job.load(std::memory_order_relaxed);
      if (thread.isInTheWay(job->cpu) && !thread.avoid(job->cpu))
        result = Turn::InTheWay;
      else if ((before & ~open) < static_cast<uint64_t>(job->helpers))
        for (int n = 0; n < turn && job->work(scratch); ++n)
          result = Turn::Worked;
    }
    place.state.fetch_sub(1, std::memory_order_release);
  }
  return result;
}

void WorkerPool::loop(int worker, PinnedThread pinned) {
  WorkerScratch scratch;
  int first = 0;
  for (;;) {
    pinned.follow();
    // The number is read first, so that any later news ends the sleep.
    uint32_t seen = news.latest();
    if (mayEnd(worker))
      return;
    switch (help(scratch, first, pinned)) {
    case Turn::Worked:
      break;
    case Turn::NothingToDo:
      news.await(worker, seen);
      break;
    case Turn::InTheWay:
      news.sleep(seen);
    }
  }
}

} // namespace anabranch::runtime
