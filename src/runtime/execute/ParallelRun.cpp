//===- ParallelRun.cpp - run the commands of a frame, with helpers --------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/ParallelRun.h"

#include "machine/limits/MachineRates.h"
#include "runtime/device/Describe.h"
#include "runtime/superkernel/Participant.h"

namespace anabranch::runtime {

namespace {

/// Less work, in nanoseconds, is done before a sleeping worker is awake.
constexpr double worthWaking = 1000 * machine::UsualCore::wakeMicroseconds;

} // namespace

Status ParallelRun::reset() {
  for (size_t s = 0; s < commands.streams.size(); ++s) {
    frame.streams[s].cursor = 0;
    frame.streams[s].unfinished.store(0, std::memory_order_relaxed);
    frame.streams[s].claim.store(ClaimWord::of(0, ClaimWord::advance).bits,
                                 std::memory_order_relaxed);
  }
  for (int e = 0; e < commands.events; ++e)
    frame.events[e].word.store(0, std::memory_order_relaxed);
  if (mode == ExecutionMode::MemberByMember)
    return {};
  if (Status s = frame.bindSuperKernels(); !s.ok())
    return s;
  for (const auto &super : frame.superKernels) {
    if (!super->isBound())
      continue;
    super->chooseSchedule(threads);
    if (super->isWorthSharing())
      super->begin();
  }
  return {};
}

Status ParallelRun::run() {
  if (Status s = reset(); !s.ok())
    return s;
  {
    TeamLease lease(mayBorrow() ? threads : 0);
    team = lease.get();
    if (team)
      runInRegions();
    else
      runWithPool();
  }
  // After the helpers have left, no other thread uses `failure` and the frame.
  return std::move(failure);
}

/// The caller is alone until there is something to share, and in calls of the
/// host. The child of a fork has no team, and the caller goes on alone.
void ParallelRun::runInRegions() {
  wantsRegion = commands.streams.size() > 1;
  while (!finished()) {
    if (!wantsRegion || isForked()) {
      claim(caller());
      continue;
    }
    wantsRegion = false;
    hostIsDue.store(false, std::memory_order_relaxed);
    inRegion = true;
    team->open(*this);
    inRegion = false;
  }
}

void ParallelRun::lead() {
  while (stays())
    if (!claim(caller()))
      waitForOthers(caller());
}

void ParallelRun::runWithPool() {
  pool.ensure(helpers);
  int place = pool.enter(*this);
  if (commands.streams.size() > 1)
    pool.notify(helpers);
  while (stays())
    if (!claim(caller()))
      waitForOthers(caller());
  if (place >= 0 && !isForked())
    pool.leave(place);
}

/// Says that there is something new to claim, for about this many helpers.
void ParallelRun::notify(int wanted) {
  if (CallsInFlight::get().isCrowded())
    wanted = 0;
  if (!team)
    pool.notify(wanted);
  else if (inRegion)
    team->notify(wanted);
  else
    wantsRegion |= wanted > 0;
}

bool ParallelRun::claim(Worker worker) {
  do {
    for (int stream : commands.byPriority)
      if (claimFrom(stream, worker))
        return true;
    // A task becomes ready without a change of its stream's claim word. While
    // this worker waited at another stream, a task may have become ready on one
    // that it had passed.
  } while (!commands.supers.empty() && !failed() && hasAnyWork(worker));
  return false;
}

bool ParallelRun::claimFrom(int stream, Worker worker) {
  StreamState &state = frame.streams[stream];
  ClaimWord word = state.word(std::memory_order_acquire);
  while (!word.isNothing() && !failed()) {
    if (word.isSuper())
      return joinSuper(stream, word, worker);
    Piece piece{};
    ClaimWord next;
    if (!word.isAdvance() && !word.isHost()) {
      piece = pieceFor(commandAt(stream, word).index, word, worker);
      if (piece.count <= 0)
        return false;
      next = word.after(piece.units, worker.isCaller);
    } else if (word.isHost() && !mayCallHost(worker)) {
      return false;
    }
    if (state.claim.compare_exchange_weak(word.bits, next.bits,
                                          std::memory_order_acq_rel,
                                          std::memory_order_acquire)) {
      runClaimed(stream, word, piece, worker);
      return true;
    }
  }
  return false;
}

/// The caller takes tiles from the front and its helpers take them from the
/// back. So what a worker has written in one launch is in its own cache when it
/// reads it in the next.
ParallelRun::Piece ParallelRun::pieceFor(int launch, ClaimWord word,
                                         Worker worker) const {
  int64_t units = unitCount(launch), each = tilesPerUnit(launch);
  int64_t left = units - word.front() - word.back();
  if (left <= 0)
    return {};
  int64_t wanted = (share(launch, left * each) + each - 1) / each;
  int64_t taken = std::min(left, wanted);
  int64_t first = worker.isCaller ? word.front() : units - word.back() - taken;
  int64_t end = std::min((first + taken) * each, launches.tiles[launch]);
  return {first * each, end - first * each, taken};
}

void ParallelRun::runClaimed(int stream, ClaimWord word, Piece piece,
                             Worker worker) {
  if (word.isAdvance() || word.isHost())
    return advance(stream, worker);
  StreamState &state = frame.streams[stream];
  const Command &command = commandAt(stream, word);
  {
    trace::OpenSlice slice(call, command.label, piece.count);
    int32_t status =
        launches.run(command.index, piece.first, piece.count, worker.scratch);
    if (status != ANABRANCH_KERNEL_OK)
      return fail(kernelError(status, launches.labelOf(command.label)));
  }
  if (state.unfinished.fetch_sub(piece.count, std::memory_order_acq_rel) !=
      piece.count)
    return;
  ++state.cursor;
  advance(stream, worker);
}

void ParallelRun::advance(int stream, Worker worker) {
  StreamState &state = frame.streams[stream];
  const std::vector<Command> &list = commands.streams[stream].commands;
  for (; state.cursor < static_cast<int>(list.size()); ++state.cursor) {
    if (failed())
      return;
    const Command &command = list[state.cursor];
    switch (command.kind) {
    case Command::Kind::Launch:
      if (isShared(command.index)) {
        state.unfinished.store(launches.tiles[command.index],
                               std::memory_order_relaxed);
        publish(stream, 0, helpersFor(command.index), worker);
        return;
      }
      if (launches.tiles[command.index] > 0 && !runInline(command, worker))
        return;
      break;
    case Command::Kind::Super:
      if (!advanceSuper(stream, command, worker))
        return;
      break;
    case Command::Kind::Call:
    case Command::Kind::Branch:
    case Command::Kind::Loop:
      if (!mayCallHost(worker)) {
        publish(stream, ClaimWord::host, 0, worker);
        return;
      }
      if (!runInline(command, worker))
        return;
      break;
    case Command::Kind::Record:
      recordEvent(command.index, worker);
      break;
    case Command::Kind::Wait:
      if (mustWait(stream, command.index))
        return;
      break;
    default:
      if (!runInline(command, worker))
        return;
    }
  }
  if (streamsLeft.fetch_sub(1, std::memory_order_acq_rel) == 1 &&
      !worker.isCaller)
    signal.tell();
}

/// True: this worker goes on with the stream. Its cursor then stands at the
/// last command of the super kernel, or before the first member. False:
/// participants run the super kernel, and the last of them advances the stream.
bool ParallelRun::advanceSuper(int stream, const Command &command,
                               Worker worker) {
  const SuperKernelRun &super = *frame.superKernels[command.index];
  if (mode == ExecutionMode::MemberByMember || !super.isBound())
    return true;
  if (super.isWorthSharing()) {
    int wanted = super.saved() > worthWaking ? helpers : 0;
    publish(stream, ClaimWord::super, wanted, worker);
    return false;
  }
  if (!runInline(command, worker))
    return false;
  frame.streams[stream].cursor += commands.supers[command.index].launchCount;
  return true;
}

void ParallelRun::publish(int stream, uint64_t flags, int wanted,
                          Worker worker) {
  StreamState &state = frame.streams[stream];
  state.claim.store(ClaimWord::of(state.cursor, flags).bits,
                    std::memory_order_release);
  if (flags & ClaimWord::host)
    hostIsDue.store(true, std::memory_order_release);
  else
    notify(wanted);
  if (!worker.isCaller)
    signal.tell();
}

bool ParallelRun::runInline(const Command &command, Worker worker) {
  Status done = runAlone(frame, command, worker.scratch, call);
  if (!done.ok())
    fail(std::move(done));
  return !failed();
}

/// Puts the stream on the event's list, unless the event has been recorded. The
/// stream then belongs to the worker that records the event.
bool ParallelRun::mustWait(int stream, int event) {
  uint64_t before = frame.events[event].word.fetch_or(
      uint64_t(1) << stream, std::memory_order_acq_rel);
  return !(before & EventState::recorded);
}

void ParallelRun::recordEvent(int event, Worker worker) {
  uint64_t waiting = frame.events[event].word.fetch_or(
      EventState::recorded, std::memory_order_acq_rel);
  for (int stream = 0; waiting >> stream; ++stream)
    if (waiting >> stream & 1)
      publish(stream, ClaimWord::advance, 1, worker);
}

void ParallelRun::fail(Status status) {
  if (failing.exchange(true, std::memory_order_acq_rel))
    return;
  failure = std::move(status);
  broken.store(true, std::memory_order_release);
  signal.tell();
}

void ParallelRun::waitForOthers(Worker worker) {
  uint32_t seen = signal.latest();
  // The awaited event may have come before that: the loop reads everything
  // again.
  if (!stays() || claim(worker) || signal.spin(seen))
    return;
  if (isForked())
    return fail(Status(StatusCode::Unsupported,
                       "the process forked during this call, while others "
                       "worked for it, and the child lacks their results"));
  signal.sleep(seen);
}

//===----------------------------------------------------------------------===//
// Super kernels
//===----------------------------------------------------------------------===//

/// The surrounding call, for a worker that runs tasks of a super kernel.
class ParallelRun::StreamAtSuperKernel final : public SurroundingCall {
public:
  StreamAtSuperKernel(ParallelRun &run, int stream, Worker worker)
      : run(run), stream(stream), worker(worker) {}

  bool hasFailed() const override { return run.failed(); }
  void fail(Status status) override { run.fail(std::move(status)); }
  bool hasOtherWork(bool onlyMoreUrgent) const override {
    return run.hasOtherWork(stream, worker, onlyMoreUrgent);
  }
  void callBack(int workers) override {
    run.notify(workers);
    run.signal.tell();
  }

private:
  ParallelRun &run;
  const int stream;
  const Worker worker;
};

/// Runs tasks of the super kernel at which the stream is. False if none are
/// ready.
bool ParallelRun::joinSuper(int stream, ClaimWord word, Worker worker) {
  const Command &command = commandAt(stream, word);
  SuperKernelRun &super = *frame.superKernels[command.index];
  StreamAtSuperKernel surrounding(*this, stream, worker);
  int done = 0;
  {
    Participant participant(super, launches, surrounding, call, worker.scratch);
    done = participant.work();
    // This worker leaves, and no other one may be left in the super kernel: the
    // caller wakes up and goes on.
    if (!worker.isCaller && !super.isTaken() && signal.isAsleep())
      signal.tell();
  }
  if (failed())
    return false;
  if (done > 0 && super.finish(done)) {
    frame.streams[stream].cursor +=
        1 + commands.supers[command.index].launchCount;
    advance(stream, worker);
  }
  return done > 0;
}

/// Whether this worker finds something to do on the stream.
bool ParallelRun::hasWork(int stream, Worker worker) const {
  ClaimWord word = frame.streams[stream].word(std::memory_order_acquire);
  if (word.isNothing())
    return false;
  if (word.isHost())
    return mayCallHost(worker);
  if (word.isAdvance())
    return true;
  const Command &command = commandAt(stream, word);
  if (word.isSuper())
    return frame.superKernels[command.index]->isAnyReady();
  return word.front() + word.back() < unitCount(command.index);
}

bool ParallelRun::hasAnyWork(Worker worker) const {
  for (int stream : commands.byPriority)
    if (hasWork(stream, worker))
      return true;
  return false;
}

/// Whether another stream needs this worker. A call into the host is urgent on
/// any stream: only the caller may run it.
bool ParallelRun::hasOtherWork(int stream, Worker worker,
                               bool onlyMoreUrgent) const {
  if (commands.streams.size() == 1)
    return false;
  bool isLess = false;
  for (int other : commands.byPriority) {
    if (other == stream) {
      isLess = onlyMoreUrgent;
      continue;
    }
    ClaimWord word = frame.streams[other].word(std::memory_order_relaxed);
    if ((!isLess || (word.isHost() && mayCallHost(worker))) &&
        !word.isNothing() && hasWork(other, worker))
      return true;
  }
  return false;
}

Status executeParallel(ExecutionMode mode, CallFrame &frame, int threads,
                       const trace::Call *call) {
  return ParallelRun(mode, frame, threads, call).run();
}

} // namespace anabranch::runtime
