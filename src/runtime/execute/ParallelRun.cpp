//===- ParallelRun.cpp - run the commands of a frame, with helpers --------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/execute/ParallelRun.h"

#include "runtime/load/Describe.h"
#include "runtime/workers/Futex.h"

namespace anabranch::runtime {

namespace {

constexpr uint64_t recordedFlag = uint64_t(1) << 63;

/// Waking a worker that sleeps takes so many nanoseconds.
constexpr double worthWaking = 10000;

uint64_t wordFor(int command, uint64_t flags) {
  return uint64_t(command + 1) << commandShift | flags;
}

} // namespace

void ParallelRun::reset() {
  for (size_t s = 0; s < commands.streams.size(); ++s) {
    frame.streams[s].cursor = 0;
    frame.streams[s].unfinished.store(0, std::memory_order_relaxed);
    frame.streams[s].claim.store(wordFor(0, advanceFlag),
                                 std::memory_order_relaxed);
  }
  for (int e = 0; e < commands.events; ++e)
    frame.events[e].word.store(0, std::memory_order_relaxed);
  if (mode == ExecutionMode::MemberByMember)
    return;
  for (const auto &super : frame.supers) {
    super->plan(threads);
    if (super->isWorthSharing())
      super->begin();
  }
}

Status ParallelRun::run() {
  reset();
  pool.ensure(helpers);
  int place = pool.enter(*this);
  if (commands.streams.size() > 1)
    pool.notify(helpers);
  while (!finished())
    if (!claim(frame.scratch.get(), /*caller=*/true))
      waitForOthers();
  // `failure` and the frame are ours again once the helpers have left.
  if (place >= 0 && !isForked())
    pool.leave(place);
  return std::move(failure);
}

bool ParallelRun::claim(void *scratch, bool caller) {
  do {
    for (int stream : commands.byPriority)
      if (claimFrom(stream, scratch, caller))
        return true;
    // Items become ready without a word: perhaps on a stream looked at before
    // another one's were waited for.
  } while (!commands.supers.empty() && !failed() && hasAnyWork(caller));
  return false;
}

bool ParallelRun::claimFrom(int stream, void *scratch, bool caller) {
  std::atomic<uint64_t> &claim = frame.streams[stream].claim;
  uint64_t word = claim.load(std::memory_order_acquire);
  while (word != 0 && !failed()) {
    if (word & superFlag)
      return helpSuper(stream, word, scratch, caller);
    int64_t count = 0;
    uint64_t next = 0;
    if (!(word & (advanceFlag | hostFlag))) {
      const Command &command =
          commands.streams[stream]
              .commands[static_cast<size_t>(word >> commandShift) - 1];
      auto first = static_cast<int64_t>(word & tileMask);
      int64_t left = frame.tiles[command.index] - first;
      if (left <= 0)
        return false;
      count = std::min(left, share(command.index, left));
      next = word + static_cast<uint64_t>(count);
    } else if ((word & hostFlag) && !caller) {
      return false;
    }
    if (claim.compare_exchange_weak(word, next, std::memory_order_acq_rel,
                                    std::memory_order_acquire)) {
      runClaimed(stream, word, count, scratch, caller);
      return true;
    }
  }
  return false;
}

void ParallelRun::runClaimed(int stream, uint64_t word, int64_t count,
                             void *scratch, bool caller) {
  if (word & (advanceFlag | hostFlag))
    return advance(stream, scratch, caller);
  StreamState &state = frame.streams[stream];
  const Command &command =
      commands.streams[stream]
          .commands[static_cast<size_t>(word >> commandShift) - 1];
  auto first = static_cast<int64_t>(word & tileMask);
  {
    trace::Scope scope(call, command.label, count);
    int32_t status = runTiles(frame, command.index, first, count, scratch);
    if (status != ANABRANCH_KERNEL_OK)
      return fail(kernelError(status, labelOf(frame, command)));
  }
  if (state.unfinished.fetch_sub(count, std::memory_order_acq_rel) != count)
    return;
  ++state.cursor;
  advance(stream, scratch, caller);
}

void ParallelRun::advance(int stream, void *scratch, bool caller) {
  StreamState &state = frame.streams[stream];
  const std::vector<Command> &list = commands.streams[stream].commands;
  for (; state.cursor < static_cast<int>(list.size()); ++state.cursor) {
    if (failed())
      return;
    const Command &command = list[state.cursor];
    switch (command.kind) {
    case Command::Kind::Launch:
      if (isShared(command.index)) {
        state.unfinished.store(frame.tiles[command.index],
                               std::memory_order_relaxed);
        publish(stream, 0, helpersFor(command.index), caller);
        return;
      }
      if (frame.tiles[command.index] > 0 && !runInline(command, scratch))
        return;
      break;
    case Command::Kind::Super:
      if (!advanceSuper(stream, command, scratch, caller))
        return;
      break;
    case Command::Kind::Call:
      if (!caller) {
        publish(stream, hostFlag, 0, caller);
        return;
      }
      if (!runInline(command, scratch))
        return;
      break;
    case Command::Kind::Record:
      recordEvent(command.index, caller);
      break;
    case Command::Kind::Wait:
      if (mustWait(stream, command.index))
        return;
      break;
    default:
      if (!runInline(command, scratch))
        return;
    }
  }
  if (streamsLeft.fetch_sub(1, std::memory_order_acq_rel) == 1 && !caller)
    tellCaller();
}

/// False when others go on with the stream; otherwise it is at the last command
/// of the super kernel, or before the first member.
bool ParallelRun::advanceSuper(int stream, const Command &command,
                               void *scratch, bool caller) {
  if (mode == ExecutionMode::MemberByMember)
    return true;
  const SuperRun &super = *frame.supers[command.index];
  if (super.isWorthSharing()) {
    int wanted = super.saved() > worthWaking ? helpers : 0;
    publish(stream, superFlag, wanted, caller);
    return false;
  }
  if (!runInline(command, scratch))
    return false;
  frame.streams[stream].cursor += commands.supers[command.index].launchCount;
  return true;
}

void ParallelRun::publish(int stream, uint64_t flags, int wanted, bool caller) {
  StreamState &state = frame.streams[stream];
  state.claim.store(wordFor(state.cursor, flags), std::memory_order_release);
  if (!(flags & hostFlag))
    pool.notify(wanted);
  if (!caller)
    tellCaller();
}

bool ParallelRun::runInline(const Command &command, void *scratch) {
  Status done = runAlone(frame, command, scratch, call);
  if (!done.ok())
    fail(std::move(done));
  return !failed();
}

/// Puts the stream on the event's list, unless the event has been recorded.
/// After that the stream belongs to whoever records the event.
bool ParallelRun::mustWait(int stream, int event) {
  uint64_t before = frame.events[event].word.fetch_or(
      uint64_t(1) << stream, std::memory_order_acq_rel);
  return !(before & recordedFlag);
}

void ParallelRun::recordEvent(int event, bool caller) {
  uint64_t waiting = frame.events[event].word.fetch_or(
      recordedFlag, std::memory_order_acq_rel);
  for (int stream = 0; waiting >> stream; ++stream)
    if (waiting >> stream & 1)
      publish(stream, advanceFlag, 1, caller);
}

void ParallelRun::fail(Status status) {
  if (failing.exchange(true, std::memory_order_acq_rel))
    return;
  failure = std::move(status);
  broken.store(true, std::memory_order_release);
  tellCaller();
}

void ParallelRun::tellCaller() {
  news.fetch_add(1, std::memory_order_seq_cst);
  if (callerSleeps.load(std::memory_order_seq_cst))
    futexWake(news, 1);
}

void ParallelRun::waitForOthers() {
  uint32_t seen = news.load(std::memory_order_seq_cst);
  if (finished() || claim(frame.scratch.get(), /*caller=*/true))
    return;
  auto end = std::chrono::steady_clock::now() + spinTime;
  do {
    for (int i = 0; i < 32; ++i) {
      if (news.load(std::memory_order_acquire) != seen)
        return;
      pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  if (isForked())
    return fail(Status(StatusCode::Unsupported,
                       "the process forked during this call, while others "
                       "worked for it, and the child lacks their results"));
  callerSleeps.store(true, std::memory_order_seq_cst);
  if (news.load(std::memory_order_seq_cst) == seen)
    futexWait(news, seen);
  callerSleeps.store(false, std::memory_order_relaxed);
}

Status executeParallel(ExecutionMode mode, Frame &frame, int threads,
                       const trace::Call *call) {
  return ParallelRun(mode, frame, threads, call).run();
}

} // namespace anabranch::runtime
