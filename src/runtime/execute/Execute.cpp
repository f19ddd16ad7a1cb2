//===- Execute.cpp - run the commands of a frame, alone -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/Execute.h"

#include "runtime/device/Describe.h"
#include "runtime/execute/CallHost.h"
#include "runtime/regions/RunBranch.h"
#include "runtime/regions/RunLoop.h"
#include "trace/Clock.h"

#include <atomic>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

namespace anabranch::runtime {

namespace {

/// With fewer tiles to share than this, the caller runs alone: waking a worker
/// takes as long as some tiles.
constexpr int64_t worthSharing = 4;

constexpr int quickest = -1, unknown = -2;

int modeNamed(std::string_view name) {
  if (name.empty())
    return quickest;
  if (name == "shared")
    return static_cast<int>(ExecutionMode::Shared);
  if (name == "members")
    return static_cast<int>(ExecutionMode::MemberByMember);
  if (name == "serial")
    return static_cast<int>(ExecutionMode::Serial);
  return unknown;
}

/// An `ExecutionMode`, or `quickest`.
std::atomic<int> fixedMode{quickest};

} // namespace

void setExecutionMode(std::optional<ExecutionMode> mode) {
  fixedMode.store(mode ? static_cast<int>(*mode) : quickest,
                  std::memory_order_relaxed);
}

Status executionFromEnvironment() {
  const char *text = std::getenv("ANABRANCH_EXECUTION");
  if (!text)
    return {};
  int mode = modeNamed(text);
  if (mode == unknown)
    return Status(
        StatusCode::InvalidArgument,
        "ANABRANCH_EXECUTION must be shared, members or serial, not '" +
            std::string(text) + "'");
  fixedMode.store(mode, std::memory_order_relaxed);
  return {};
}

/// A call that needs less CPU time, in nanoseconds, does not wait for its turn:
/// it is over before the kernel takes its CPU, and a wake-up would take a good
/// part of its time.
static constexpr int64_t worthWaiting = 1'000'000;

static int64_t cpuTimeOfThread() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

/// Adds the user's line to an error of the host.
static Status withPlace(Status status, const trace::Label &label) {
  if (status.ok() || label.file.empty())
    return status;
  return Status(status.code(), status.message() + " (" + describe(label) + ")");
}

// Commands other than launches run in functions of their own, so that
// `runAlone` needs few registers: a launch may take some nanoseconds beside its
// kernel.

[[gnu::noinline]] static void runStep(const CallFrame &frame,
                                      const Command &command,
                                      const trace::Call *call) {
  trace::OpenSlice slice(call, command.label);
  const StepPlan &step = frame.commands.steps[command.index];
  TensorView tensors[mostStepTensors];
  for (size_t i = 0; i < step.buffers.size(); ++i)
    tensors[i] = frame.viewOf(step.buffers[i]);
  step.run(*frame.plan.device, tensors);
}

[[gnu::noinline]] static Status
runCall(CallFrame &frame, const Command &command, const trace::Call *call) {
  trace::OpenSlice slice(call, command.label);
  CallTurn::Pause pause(frame.turn);
  Status done = callHost(frame, command.index);
  return done.ok() ? Status()
                   : withPlace(std::move(done),
                               frame.launches.labelOf(command.label));
}

[[gnu::noinline]] static Status
runRegions(CallFrame &frame, const Command &command, const trace::Call *call) {
  trace::OpenSlice slice(call, command.label);
  // A region has a turn of its own. If its caller kept one meanwhile, a nest of
  // regions would wait for itself.
  CallTurn::Pause pause(frame.turn);
  const RegionCaller caller{frame.plan, frame.commands, frame.slots.data(),
                            frame};
  Status done = command.kind == Command::Kind::Branch
                    ? runBranch(caller, command.index)
                    : runLoop(caller, command.index);
  return done.ok() ? Status()
                   : withPlace(std::move(done),
                               frame.launches.labelOf(command.label));
}

/// Runs the launches of a super kernel one after the other.
[[gnu::noinline]] static Status runMembers(const CallFrame &frame,
                                           const SuperKernel &super,
                                           LaunchScratch scratch,
                                           const trace::Call *call) {
  for (int i = 0; i < super.launchCount; ++i) {
    int launch = super.firstLaunch + i, label = super.firstLabel + i;
    int64_t tiles = frame.launches.tiles[launch];
    trace::OpenSlice slice(call, label, tiles);
    int32_t status = frame.launches.run(launch, 0, tiles, scratch);
    if (status != ANABRANCH_KERNEL_OK)
      return kernelError(status, frame.launches.labelOf(label));
  }
  return {};
}

Status runAlone(CallFrame &frame, const Command &command, LaunchScratch scratch,
                const trace::Call *call) {
  if (command.kind == Command::Kind::Launch) {
    int64_t tiles = frame.launches.tiles[command.index];
    trace::OpenSlice slice(call, command.label, tiles);
    int32_t status = frame.launches.run(command.index, 0, tiles, scratch);
    return status == ANABRANCH_KERNEL_OK
               ? Status()
               : kernelError(status, frame.launches.labelOf(command.label));
  }
  if (command.kind == Command::Kind::Super)
    return runMembers(frame, frame.commands.supers[command.index], scratch,
                      call);
  if (command.kind == Command::Kind::Call)
    return runCall(frame, command, call);
  if (command.kind == Command::Kind::Branch ||
      command.kind == Command::Kind::Loop)
    return runRegions(frame, command, call);
  runStep(frame, command, call);
  return {};
}

Status executeSerial(CallFrame &frame, const trace::Call *call) {
  LaunchScratch scratch = frame.callerScratch();
  for (const Command &c : frame.commands.serial)
    if (Status s = runAlone(frame, c, scratch, call); !s.ok())
      return s;
  return {};
}

Status executeIn(ExecutionMode mode, CallFrame &frame, int threads,
                 const trace::Call *call) {
  return mode == ExecutionMode::Serial
             ? executeSerial(frame, call)
             : executeParallel(mode, frame, threads, call);
}

/// Runs the call on its own thread, as others have the other CPUs.
static Status executeInCrowd(CallFrame &frame, const trace::Call *call) {
  int64_t start = cpuTimeOfThread();
  Status done = executeSerial(frame, call);
  frame.timeInCrowd = cpuTimeOfThread() - start;
  return done;
}

/// Runs the call in the mode that was quickest, or is on trial.
static Status executeTuned(CallFrame &frame, int threads,
                           const trace::Call *call) {
  ModeTuner &tuner = frame.tunerFor(threads);
  // Tracing takes time, so the tuner does not learn from a traced call.
  if (call)
    return executeIn(tuner.fastest(), frame, threads, call);
  if (!tuner.wantsTime())
    return executeIn(tuner.mode(), frame, threads, call);
  int64_t start = trace::now();
  Status done = executeIn(tuner.mode(), frame, threads, call);
  if (done.ok())
    tuner.record(trace::now() - start);
  return done;
}

Status execute(CallFrame &frame, int threads, const trace::Call *call) {
  frame.launches.beginCall();
  bool isOneList = frame.commands.streams.size() < 2;
  if (isOneList && frame.launches.sharedTiles < worthSharing)
    return executeSerial(frame, call);
  if (int fixed = fixedMode.load(std::memory_order_relaxed); fixed != quickest)
    return threads <= 1 ? executeSerial(frame, call)
                        : executeIn(static_cast<ExecutionMode>(fixed), frame,
                                    threads, call);
  CallTurn turn(frame.turn, /*waits=*/frame.timeInCrowd >= worthWaiting);
  if (turn.wasCrowded())
    return executeInCrowd(frame, call);
  return threads <= 1 ? executeSerial(frame, call)
                      : executeTuned(frame, threads, call);
}

} // namespace anabranch::runtime
