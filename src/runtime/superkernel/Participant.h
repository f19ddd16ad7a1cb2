//===- Participant.h - one worker in a super kernel -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_PARTICIPANT_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_PARTICIPANT_H

#include "runtime/plan/BoundLaunches.h"
#include "runtime/superkernel/SuperKernelRun.h"

namespace anabranch::runtime {

/// The call around a super kernel, as one of its workers sees it.
class SurroundingCall {
public:
  virtual bool hasFailed() const = 0;
  virtual void fail(Status status) = 0;
  /// Whether the worker finds something to do on another stream; with
  /// `onlyMoreUrgent`, on a more urgent one.
  virtual bool hasOtherWork(bool onlyMoreUrgent) const = 0;
  /// Calls back this many of the workers that left, and the caller.
  virtual void callBack(int workers) = 0;

protected:
  ~SurroundingCall() = default;
};

/// A worker that runs tasks of a super kernel: it has a slot, and steals once
/// it has waited long enough.
class Participant {
public:
  Participant(SuperKernelRun &run, const BoundLaunches &launches,
              SurroundingCall &call, const trace::Call *traced,
              LaunchScratch scratch)
      : run(run), launches(launches), call(call), traced(traced),
        scratch(scratch), slot(run.takeSlot()) {}
  ~Participant() { run.leaveSlot(slot); }
  Participant(const Participant &) = delete;
  Participant &operator=(const Participant &) = delete;

  /// Runs tasks until none is ready for a while, other streams need the worker
  /// more, or the call fails. Returns how many tasks it ran.
  int work();

private:
  int await();
  bool runTask(int task);
  void callBackIdle();

  SuperKernelRun &run;
  const BoundLaunches &launches;
  SurroundingCall &call;
  const trace::Call *const traced;
  const LaunchScratch scratch;
  const int slot;
  bool steals = false;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_PARTICIPANT_H
