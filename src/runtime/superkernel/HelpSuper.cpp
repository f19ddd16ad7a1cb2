//===- HelpSuper.cpp - run items of a super kernel ------------------------===//
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

/// Items that a worker runs before it looks at the other calls in flight.
constexpr int itemTurn = 16;

/// How long a worker looks for items of its own before it takes those of
/// another: about as long as it takes to move what they read. One that is late
/// by less had better run them itself, and have their weights in its cache in
/// the next call, too.
constexpr std::chrono::nanoseconds patience(500);

/// Constant bytes fetched at a time while nothing is ready, and in all for one
/// item: less than a core's own cache holds.
constexpr int64_t fetchPiece = 1024, fetchMost = 128 << 10;

/// Brings the constants of an item near, piece by piece.
class Fetcher {
public:
  Fetcher(const Frame &frame, const SuperRun &super, int item) {
    if (item < 0 || super.fetchOf(item).operand < 0)
      return;
    const SuperFetch &fetch = super.fetchOf(item);
    reach = fetch.reach;
    data = static_cast<const char *>(frame.operands[fetch.operand]);
    left = std::min(reach.bytes(), fetchMost);
  }

  /// False when there is nothing left to fetch.
  bool step() {
    if (left <= 0)
      return false;
    int64_t piece = std::min(fetchPiece, reach.width - column);
    const char *from = data + reach.begin + row * reach.pitch + column;
    for (int64_t at = 0; at < piece; at += 64)
      __builtin_prefetch(from + at, /*write=*/0, /*locality=*/2);
    left -= piece;
    column += piece;
    if (column == reach.width) {
      column = 0;
      ++row;
    }
    return true;
  }

private:
  const char *data = nullptr;
  Reach reach;
  int64_t left = 0, row = 0, column = 0;
};

} // namespace

/// Runs items of the super kernel that the stream is at, and waits a little for
/// more; false if there are none for now.
bool ParallelRun::helpSuper(int stream, uint64_t word, void *scratch,
                            bool caller) {
  const Command &command =
      commands.streams[stream]
          .commands[static_cast<size_t>(word >> commandShift) - 1];
  SuperRun &super = *frame.supers[command.index];
  int seat = super.sit(), done = 0, item = -1;
  bool helps = false;
  while (!failed()) {
    item = done < itemTurn ? super.take(seat, helps) : -1;
    if (item < 0 && done < itemTurn)
      item = awaitItem(super, seat, helps, stream, caller);
    if (item < 0 || !runItem(super, item, scratch))
      break;
    ++done;
    if (super.away.load(std::memory_order_relaxed) > 0)
      askForHelp(super);
    if (hasOtherWork(stream, caller, /*onlyMoreUrgent=*/true))
      break;
  }
  // Nobody else may be there to go on.
  if (!caller && !super.isTaken() &&
      callerSleeps.load(std::memory_order_relaxed))
    tellCaller();
  super.rise(seat);
  if (failed())
    return false;
  if (done > 0 && super.finish(done)) {
    frame.streams[stream].cursor +=
        1 + commands.supers[command.index].launchCount;
    advance(stream, scratch, caller);
  }
  return done > 0;
}

bool ParallelRun::runItem(SuperRun &super, int item, void *scratch) {
  const SuperItem &i = super[item];
  {
    trace::Scope scope(call, i.label, i.tiles);
    int32_t status = runTiles(frame, i.launch, i.tile, i.tiles, scratch);
    if (status != ANABRANCH_KERNEL_OK) {
      fail(kernelError(status, frame.plan.info->labels[i.label]));
      return false;
    }
  }
  super.signal(item);
  return true;
}

/// Looks for ready items for a while; -1 when there are none, or others need
/// this worker more.
int ParallelRun::awaitItem(SuperRun &super, int seat, bool &helps, int stream,
                           bool caller) {
  Fetcher fetcher(frame, super, super.next(seat));
  auto begin = std::chrono::steady_clock::now(), now = begin;
  do {
    for (int i = 0; i < 8; ++i) {
      if (int item = super.take(seat, helps); item >= 0)
        return item;
      if (failed() || (super.next(seat) < 0 && super.isTaken()) ||
          hasOtherWork(stream, caller, /*onlyMoreUrgent=*/false))
        return -1;
      if (!fetcher.step())
        pause();
    }
    now = std::chrono::steady_clock::now();
    helps = helps || now - begin >= patience;
  } while (now - begin < spinTime);
  super.away.fetch_add(1, std::memory_order_seq_cst);
  // What became ready just before that nobody asks help for.
  return super.take(seat, helps);
}

/// Whether a worker that looks at the stream finds something to do.
bool ParallelRun::hasWork(int stream, bool caller) const {
  uint64_t word = frame.streams[stream].claim.load(std::memory_order_acquire);
  if (word == 0)
    return false;
  if (word & hostFlag)
    return caller;
  if (word & advanceFlag)
    return true;
  const Command &command =
      commands.streams[stream]
          .commands[static_cast<size_t>(word >> commandShift) - 1];
  if (word & superFlag)
    return frame.supers[command.index]->isAnyReady();
  return static_cast<int64_t>(word & tileMask) < frame.tiles[command.index];
}

bool ParallelRun::hasAnyWork(bool caller) const {
  for (int stream : commands.byPriority)
    if (hasWork(stream, caller))
      return true;
  return false;
}

/// Whether another stream needs this worker. What only the caller may do is
/// urgent on any stream.
bool ParallelRun::hasOtherWork(int stream, bool caller,
                               bool onlyMoreUrgent) const {
  if (commands.streams.size() == 1)
    return false;
  bool isLess = false;
  for (int other : commands.byPriority) {
    if (other == stream) {
      isLess = onlyMoreUrgent;
      continue;
    }
    uint64_t word = frame.streams[other].claim.load(std::memory_order_relaxed);
    if ((!isLess || (caller && word & hostFlag)) && word != 0 &&
        hasWork(other, caller))
      return true;
  }
  return false;
}

/// Calls those back that left, when one of them would find a ready item.
void ParallelRun::askForHelp(SuperRun &super) {
  if (!super.wantsWorker())
    return;
  if (int away = super.away.exchange(0, std::memory_order_relaxed)) {
    pool.notify(away);
    tellCaller();
  }
}

} // namespace anabranch::runtime
