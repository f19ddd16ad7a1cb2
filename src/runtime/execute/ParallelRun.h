//===- ParallelRun.h - one call, run by several workers ---------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A stream is at one command at a time. Whoever completes that command advances
// the stream: does small commands at once, and publishes what others may claim
// as one word, StreamState::claim:
//
//   0                              nothing to claim
//   (command + 1) << 40 | tile     tiles from `tile` on of a launch
//   ... | advance                  the right to advance the stream
//   ... | host                     a call into the host, for the caller only
//   ... | super                    items of a super kernel, while there are any
//
// A stream's commands only go up during a call, so that a word never comes back
// and a compare-and-swap is enough. Between calls no worker looks at the words.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_EXECUTE_PARALLELRUN_H
#define ANABRANCH_RUNTIME_EXECUTE_PARALLELRUN_H

#include "runtime/execute/Execute.h"
#include "runtime/workers/WorkerPool.h"

#include <algorithm>
#include <chrono>

namespace anabranch::runtime {

constexpr int commandShift = 40;
constexpr uint64_t advanceFlag = uint64_t(1) << 39;
constexpr uint64_t hostFlag = uint64_t(1) << 38;
constexpr uint64_t superFlag = uint64_t(1) << 37;
constexpr uint64_t tileMask = superFlag - 1;

/// How long a worker keeps its core while others finish what it waits for.
/// After that one that was interrupted may need it.
constexpr std::chrono::microseconds spinTime(30);

/// One call, from its first command to its last.
class ParallelRun : public Job {
public:
  ParallelRun(ExecutionMode mode, Frame &frame, int threads,
              const trace::Call *call)
      : Job(threads - 1), mode(mode), frame(frame), commands(frame.commands),
        threads(threads), call(call), pool(WorkerPool::get()),
        streamsLeft(static_cast<int>(commands.streams.size())) {}

  Status run();
  bool work(WorkerScratch &scratch) override {
    void *memory = scratch.reserve(frame.scratchBytes);
    if (!memory && frame.scratchBytes)
      return false;
    return claim(memory, /*caller=*/false);
  }

private:
  void reset();
  bool claim(void *scratch, bool caller);
  bool claimFrom(int stream, void *scratch, bool caller);
  void runClaimed(int stream, uint64_t word, int64_t count, void *scratch,
                  bool caller);
  void advance(int stream, void *scratch, bool caller);
  void publish(int stream, uint64_t flags, int wanted, bool caller);
  bool runInline(const Command &command, void *scratch);
  bool advanceSuper(int stream, const Command &command, void *scratch,
                    bool caller);
  bool helpSuper(int stream, uint64_t word, void *scratch, bool caller);
  bool runItem(SuperRun &super, int item, void *scratch);
  int awaitItem(SuperRun &super, int seat, bool &helps, int stream,
                bool caller);
  bool hasWork(int stream, bool caller) const;
  bool hasAnyWork(bool caller) const;
  bool hasOtherWork(int stream, bool caller, bool onlyMoreUrgent) const;
  void askForHelp(SuperRun &super);
  bool mustWait(int stream, int event);
  void recordEvent(int event, bool caller);
  void fail(Status status);
  void tellCaller();
  void waitForOthers();
  bool isForked() const { return &WorkerPool::get() != &pool; }

  /// A sleeping worker costs more to wake than a few tiles cost to run.
  int helpersFor(int launch) const {
    int64_t tiles = frame.tiles[launch],
            cores = commands.launches[launch].cores;
    int64_t others = std::min((cores > 0 ? std::min(cores, tiles) : tiles) - 1,
                              int64_t(helpers));
    return tiles < 4 ? 0 : static_cast<int>(others);
  }
  /// How many tiles to take, of which so many are left. Large pieces first, for
  /// locality; small ones last, so that a worker that lost its core to another
  /// process holds up little. A launch that may use some cores only is cut into
  /// as many pieces.
  int64_t share(int launch, int64_t left) const {
    int64_t cores = commands.launches[launch].cores;
    if (cores > 0)
      return (frame.tiles[launch] + cores - 1) / cores;
    return std::max<int64_t>(1, left / (4 * threads));
  }
  bool isShared(int launch) const {
    return frame.tiles[launch] > 1 && commands.launches[launch].cores != 1;
  }
  bool finished() const {
    return streamsLeft.load(std::memory_order_acquire) == 0 || failed();
  }
  bool failed() const { return broken.load(std::memory_order_acquire); }

  const ExecutionMode mode;
  Frame &frame;
  const Commands &commands;
  const int threads;
  const trace::Call *const call;
  WorkerPool &pool;
  std::atomic<int> streamsLeft;
  std::atomic<bool> failing{false}; ///< somebody is about to set `failure`
  std::atomic<bool> broken{false};
  std::atomic<bool> callerSleeps{false};
  std::atomic<uint32_t> news{0}; ///< counts what may interest the caller
  Status failure;                ///< set before `broken`
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_PARALLELRUN_H
