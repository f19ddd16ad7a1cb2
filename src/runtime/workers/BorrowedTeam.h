//===- BorrowedTeam.h - the framework's threads help a call -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's OpenMP threads spin for some milliseconds after each operator.
// Threads of our own beside them would share the CPUs with threads that do
// nothing. So a call borrows the team and runs as a region of it.
//
//   caller    ── alone ──┬─ lead ──────────┬─ an operator of the host ─┬─ lead
//   thread 1             └─ work, wait, … ─┘                           └─ …
//                     open             closed                       open

#ifndef ANABRANCH_RUNTIME_WORKERS_BORROWEDTEAM_H
#define ANABRANCH_RUNTIME_WORKERS_BORROWEDTEAM_H

#include "anabranch/Machine.h"
#include "runtime/workers/Job.h"
#include "runtime/workers/News.h"

#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace anabranch::runtime {

/// The framework's team while calls use it. One call has it at a time: two
/// regions would put two threads on each CPU.
class BorrowedTeam {
public:
  /// Opens a region: this thread leads the job, and the team's other threads
  /// work for it. Returns when all of them have left the job.
  void open(Job &job);

  /// Says that there is something new to claim, for about this many workers.
  void notify(int wanted) { news.notify(wanted); }

private:
  friend class TeamLease;

  void enter(int number) noexcept;
  void help(int number);

  const FrameworkTeam *team = nullptr;
  Job *job = nullptr;
  News news;
  std::atomic<bool> closed{false}; ///< the caller has left the region
  /// The thread whose call has the team; none: no call has it.
  std::atomic<std::thread::id> owner{};
  std::vector<WorkerScratch> scratches; ///< by the number of the thread
};

/// Borrows the team for one call, if it is usable, has as many threads as the
/// call wants, and no other thread's call has it. With another size the
/// framework would end threads, and start them again for its next operator.
///
/// A call that runs inside another one, as a region of a program does, shares
/// the team with it: the outer call has no region of the team open meanwhile.
class TeamLease {
public:
  explicit TeamLease(int threads);
  ~TeamLease();
  TeamLease(const TeamLease &) = delete;
  TeamLease &operator=(const TeamLease &) = delete;

  /// Null if the call needs threads of the pool.
  BorrowedTeam *get() const { return borrowed; }

private:
  BorrowedTeam *borrowed = nullptr;
  bool isShared = false; ///< with the call around this one
};

/// The owner of the threads that help a call with this many, and the reason, as
/// text.
std::string whoHelps(int threads);

/// Reads ANABRANCH_TEAM. Opening a package calls this, so that a word other
/// than `own` and `framework` is an error.
Status teamFromEnvironment();

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_BORROWEDTEAM_H
