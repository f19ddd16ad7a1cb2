//===- Participant.h - one worker in a super kernel -------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_PARTICIPANT_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_PARTICIPANT_H

#include "runtime/plan/BoundLaunches.h"
#include "runtime/superkernel/SuperKernelRun.h"

namespace anabranch::runtime {

/// The call that a super kernel belongs to, as one of its workers sees it.
class SurroundingCall {
public:
  virtual bool hasFailed() const = 0;
  virtual void fail(Status status) = 0;
  /// Whether the worker finds something to do on another stream, or, if
  /// `onlyMoreUrgent`, on one that comes before this one.
  virtual bool hasOtherWork(bool onlyMoreUrgent) const = 0;
  /// Calls back so many of the workers that left, and the caller.
  virtual void callBack(int workers) = 0;

protected:
  ~SurroundingCall() = default;
};

/// A worker that runs tasks of a super kernel: its slot, and whether it has
/// waited long enough to take tasks from the queues of others.
class Participant {
public:
  Participant(SuperKernelRun &run, const BoundLaunches &launches,
              SurroundingCall &call, const trace::Call *traced, void *scratch)
      : run(run), launches(launches), call(call), traced(traced),
        scratch(scratch), slot(run.takeSlot()) {}
  ~Participant() { run.leaveSlot(slot); }
  Participant(const Participant &) = delete;
  Participant &operator=(const Participant &) = delete;

  /// Runs tasks, and waits a little for more, until there are none for now,
  /// others need the worker more, or the call fails. Returns how many it ran.
  int work();

private:
  int await();
  bool runTask(int task);
  void callBackIdle();

  SuperKernelRun &run;
  const BoundLaunches &launches;
  SurroundingCall &call;
  const trace::Call *const traced;
  void *const scratch;
  const int slot;
  bool steals = false;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_PARTICIPANT_H
