//===- Participant.cpp - one worker in a super kernel ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/superkernel/Participant.h"

#include "machine/limits/MachineRates.h"
#include "runtime/device/Describe.h"
#include "runtime/workers/Futex.h"

#include <algorithm>
#include <chrono>

namespace anabranch::runtime {

namespace {

/// A worker runs this many tasks before it looks at other calls in flight.
constexpr int taskTurn = 16;

/// A worker looks this long for tasks of its own queue before it steals: about
/// the time to move what the task reads. A worker that is less late had better
/// run its tasks itself, since it then has their weights in its cache in the
/// next call.
constexpr std::chrono::nanoseconds patience(500);

/// Bytes of constants to fetch at a time while no task is ready: so few that
/// the worker soon looks for a task again. For one task it fetches at most an
/// eighth of the core's own cache, which also holds what running tasks read.
constexpr int64_t fetchPiece = 16 * machine::lineBytes,
                  fetchMost = machine::UsualCore::l2Bytes / 8;

/// Prefetches the constants of a task, piece by piece.
class Prefetcher {
public:
  Prefetcher(const BoundLaunches &launches, const SuperKernelRun &run,
             int task) {
    if (task < 0 || run.constantOf(task).operand < 0)
      return;
    const ConstantRead &constant = run.constantOf(task);
    region = constant.region;
    data = static_cast<const char *>(launches.operands[constant.operand]);
    left = std::min(region.bytes(), fetchMost);
  }

  /// False if nothing is left to fetch.
  bool step() {
    if (left <= 0)
      return false;
    int64_t piece = std::min(fetchPiece, region.width - column);
    const char *from = data + region.begin + row * region.pitch + column;
    for (int64_t at = 0; at < piece; at += machine::lineBytes)
      __builtin_prefetch(from + at, /*write=*/0, /*locality=*/2);
    left -= piece;
    column += piece;
    if (column == region.width) {
      column = 0;
      ++row;
    }
    return true;
  }

private:
  const char *data = nullptr;
  StridedRegion region;
  int64_t left = 0, row = 0, column = 0;
};

} // namespace

int Participant::work() {
  int done = 0;
  while (!call.hasFailed()) {
    int task = done < taskTurn ? run.take(slot, steals) : -1;
    if (task < 0 && done < taskTurn)
      task = await();
    if (task < 0 || !runTask(task))
      break;
    ++done;
    if (run.idle.load(std::memory_order_seq_cst) > 0)
      callBackIdle();
    if (call.hasOtherWork(/*onlyMoreUrgent=*/true))
      break;
  }
  return done;
}

bool Participant::runTask(int number) {
  const Task &task = run[number];
  {
    trace::OpenSlice slice(traced, task.label, task.tiles);
    int32_t status = launches.run(task.launch, task.tile, task.tiles, scratch);
    if (status != ANABRANCH_KERNEL_OK) {
      call.fail(kernelError(status, launches.labelOf(task.label)));
      return false;
    }
  }
  run.signal(number);
  return true;
}

/// Looks for ready tasks for a while. -1 if there are none, or other streams
/// need this worker more.
int Participant::await() {
  Prefetcher prefetcher(launches, run, run.next(slot));
  auto begin = std::chrono::steady_clock::now(), now = begin;
  do {
    for (int i = 0; i < 8; ++i) {
      if (int task = run.take(slot, steals); task >= 0)
        return task;
      if (call.hasFailed() || (run.next(slot) < 0 && run.isTaken()) ||
          call.hasOtherWork(/*onlyMoreUrgent=*/false))
        return -1;
      if (!prefetcher.step())
        pause();
    }
    now = std::chrono::steady_clock::now();
    steals = steals || now - begin >= patience;
  } while (now - begin < spinBeforeSleep);
  run.idle.fetch_add(1, std::memory_order_seq_cst);
  // A task may have become ready just before `idle` was counted up; nobody
  // calls this worker back for it.
  return run.take(slot, steals);
}

/// Calls the idle workers back if one more worker would find a ready task.
void Participant::callBackIdle() {
  if (!run.wantsWorker())
    return;
  if (int idle = run.idle.exchange(0, std::memory_order_relaxed))
    call.callBack(idle);
}

} // namespace anabranch::runtime
