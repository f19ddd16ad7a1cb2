//===- Job.h - a call that wants help ---------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_WORKERS_JOB_H
#define ANABRANCH_RUNTIME_WORKERS_JOB_H

#include <cstddef>
#include <cstdint>
#include <sched.h>

namespace anabranch::runtime {

/// One worker's memory for a kernel's intermediate values.
class WorkerScratch {
public:
  WorkerScratch() = default;
  ~WorkerScratch();
  WorkerScratch(const WorkerScratch &) = delete;
  WorkerScratch &operator=(const WorkerScratch &) = delete;
  /// Null if there is no memory.
  void *reserve(size_t bytes);

  /// The number of the setup that has filled the memory; 0: none.
  uint64_t contents = 0;

private:
  void *memory = nullptr;
  size_t size = 0;
};

/// A call that wants help. Several workers call `work` at once. None does after
/// `WorkerPool::leave` or `BorrowedTeam::open` has returned.
class Job {
public:
  explicit Job(int helpers) : helpers(helpers), cpu(::sched_getcpu()) {}
  virtual ~Job() = default;
  /// Does one piece. False if there is nothing to claim now.
  virtual bool work(WorkerScratch &scratch) = 0;
  /// The work of the calling thread in a region. It returns when other threads
  /// have nothing more to do.
  virtual void lead() {}
  /// At most this many workers are inside at once.
  const int helpers;
  /// The CPU on which the caller runs. A worker there would take it from the
  /// caller.
  const int cpu;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_WORKERS_JOB_H
