//===- ParallelRun.h - one call, run by several workers ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_PARALLELRUN_H
#define ANABRANCH_RUNTIME_EXECUTE_PARALLELRUN_H

#include "runtime/execute/CallerSignal.h"
#include "runtime/execute/Execute.h"
#include "runtime/workers/BorrowedTeam.h"
#include "runtime/workers/WorkerPool.h"

#include <algorithm>

namespace anabranch::runtime {

/// One call, from its first command to its last. Its helpers are threads of the
/// framework's team, or of the pool.
class ParallelRun : public Job {
public:
  ParallelRun(ExecutionMode mode, CallFrame &frame, int threads,
              const trace::Call *call)
      : Job(threads - 1), mode(mode), frame(frame), commands(frame.commands),
        launches(frame.launches), threads(threads), call(call),
        pool(WorkerPool::get()),
        streamsLeft(static_cast<int>(commands.streams.size())) {}

  Status run();
  bool work(WorkerScratch &scratch) override {
    void *memory = scratch.reserve(launches.scratchBytes);
    if (!memory && launches.scratchBytes)
      return false;
    return claim({{memory, scratch.contents}, /*isCaller=*/false});
  }
  void lead() override;

private:
  /// A thread that works for the call. Threads other than the caller signal it
  /// after each piece of work.
  struct Worker {
    LaunchScratch scratch;
    bool isCaller;
  };
  class StreamAtSuperKernel;
  /// Tiles of a launch that one worker claims at once. A claim word counts them
  /// in units.
  struct Piece {
    int64_t first, count, units;
  };

  Status reset();
  void runInRegions();
  void runWithPool();
  void notify(int wanted);
  bool claim(Worker worker);
  bool claimFrom(int stream, Worker worker);
  Piece pieceFor(int launch, ClaimWord word, Worker worker) const;
  void runClaimed(int stream, ClaimWord word, Piece piece, Worker worker);
  void advance(int stream, Worker worker);
  void publish(int stream, uint64_t flags, int wanted, Worker worker);
  bool runInline(const Command &command, Worker worker);
  bool advanceSuper(int stream, const Command &command, Worker worker);
  bool joinSuper(int stream, ClaimWord word, Worker worker);
  bool hasWork(int stream, Worker worker) const;
  bool hasAnyWork(Worker worker) const;
  bool hasOtherWork(int stream, Worker worker, bool onlyMoreUrgent) const;
  bool mustWait(int stream, int event);
  void recordEvent(int event, Worker worker);
  void fail(Status status);
  void waitForOthers(Worker worker);
  Worker caller() const { return {frame.callerScratch(), /*isCaller=*/true}; }
  bool isForked() const { return &WorkerPool::get() != &pool; }
  /// Only the thread that called the program may call the host, and not inside
  /// of a region: there the host's operator would have one thread.
  bool mayCallHost(Worker worker) const { return worker.isCaller && !inRegion; }
  /// Whether the team may help this call. Beside another call its threads would
  /// be too many. A program with several streams has its helpers run one while
  /// the caller is in the host on another; the team's threads are the
  /// operator's at that time.
  bool mayBorrow() const {
    bool callsHost = !commands.calls.empty() || !commands.branches.empty() ||
                     !commands.loops.empty();
    return (!callsHost || commands.streams.size() == 1) &&
           CallsInFlight::get().isAlone();
  }
  const Command &commandAt(int stream, ClaimWord word) const {
    return commands.streams[stream].commands[word.command()];
  }

  /// A sleeping worker costs more to wake than a few tiles cost to run.
  int helpersFor(int launch) const {
    int64_t tiles = launches.tiles[launch],
            cores = commands.launches[launch].cores;
    int64_t others = std::min((cores > 0 ? std::min(cores, tiles) : tiles) - 1,
                              int64_t(helpers));
    return tiles < 4 ? 0 : static_cast<int>(others);
  }
  /// How many tiles to claim when `left` are left. Large pieces come first, for
  /// locality, and small ones last: a worker that loses its core to another
  /// process then delays little. A launch with a core limit is cut into as many
  /// pieces as it may use cores.
  int64_t share(int launch, int64_t left) const {
    int64_t cores = commands.launches[launch].cores;
    if (cores > 0)
      return (launches.tiles[launch] + cores - 1) / cores;
    return std::max<int64_t>(1, left / (4 * threads));
  }
  /// The tiles of a unit: one, unless the launch has too many.
  int64_t tilesPerUnit(int launch) const {
    return launches.tiles[launch] / ClaimWord::maxUnits + 1;
  }
  int64_t unitCount(int launch) const {
    int64_t each = tilesPerUnit(launch);
    return (launches.tiles[launch] + each - 1) / each;
  }
  bool isShared(int launch) const {
    return launches.tiles[launch] > 1 && commands.launches[launch].cores != 1;
  }
  bool finished() const {
    return streamsLeft.load(std::memory_order_acquire) == 0 || failed();
  }
  /// Whether the caller may have more to do where it is. It leaves a region of
  /// the team for the host.
  bool stays() const {
    return !finished() &&
           !(inRegion && hostIsDue.load(std::memory_order_acquire));
  }
  bool failed() const { return broken.load(std::memory_order_acquire); }

  const ExecutionMode mode;
  CallFrame &frame;
  const Commands &commands;
  const BoundLaunches &launches;
  const int threads;
  const trace::Call *const call;
  WorkerPool &pool;
  BorrowedTeam *team = nullptr; ///< null: the pool helps
  bool inRegion = false;        ///< of the caller
  bool wantsRegion = false;     ///< of the caller, outside of a region
  std::atomic<bool> hostIsDue{false};
  std::atomic<int> streamsLeft;
  std::atomic<bool> failing{false}; ///< a worker is about to set `failure`
  std::atomic<bool> broken{false};
  CallerSignal signal; ///< to the caller
  Status failure;      ///< set before `broken`
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_PARALLELRUN_H
