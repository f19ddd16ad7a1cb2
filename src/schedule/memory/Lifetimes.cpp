//===- Lifetimes.cpp - when the bytes of a program are in use -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/memory/Lifetimes.h"

#include "schedule/program/Dependencies.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

bool Lifetime::endsBefore(const Lifetime &other) const {
  return llvm::all_of(llvm::zip(last, other.reached), [](auto pair) {
    return std::get<0>(pair) < std::get<1>(pair);
  });
}

namespace {

using Clock = SmallVector<int, 4>;

/// Steps through the streams side by side and records what their commands use.
class Player {
public:
  Player(ir::ProgramOp program, int spread)
      : program(program), spread(spread), events(program.getEvents()) {
    for (auto op : program.getBody().getOps<ir::StreamOp>())
      if (!op.getInitialize())
        streams.push_back({op, op.getBody().front().begin(), 0, 0, {}});
    for (Stream &stream : streams)
      stream.clock.assign(streams.size(), 0);
  }

  LogicalResult play() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int s = 0, e = streams.size(); s < e; ++s)
        moved |= advance(s);
    }
    for (Stream &stream : streams)
      if (stream.next != stream.op.getBody().front().end())
        return stream.next->emitOpError(
            "waits for an event that no command records");
    return success();
  }

  llvm::MapVector<int64_t, Lifetime> lifetimes;

private:
  struct Stream {
    ir::StreamOp op;
    Block::iterator next;
    int position;
    int superEnd; ///< position of the last member of the newest super kernel
    Clock clock;
  };

  bool advance(int number) {
    Stream &stream = streams[number];
    bool moved = false;
    for (auto end = stream.op.getBody().front().end(); stream.next != end;
         ++stream.next, moved = true) {
      Operation &op = *stream.next;
      if (auto wait = dyn_cast<ir::WaitOp>(op)) {
        const Clock &recorded = events[wait.getEvent()];
        if (recorded.empty())
          return moved;
        for (auto [known, there] : llvm::zip(stream.clock, recorded))
          known = std::max(known, there);
      }
      if (auto super = dyn_cast<ir::SuperOp>(op)) {
        Block &members = super.getBody().front();
        stream.superEnd = stream.position + members.getOperations().size() - 1;
        for (Operation &member : members)
          step(member, number);
      } else {
        step(op, number);
      }
      if (auto record = dyn_cast<ir::RecordOp>(op))
        events[record.getEvent()] = stream.clock;
    }
    return moved;
  }

  void step(Operation &op, int number) {
    for (Value operand : op.getOperands())
      use(operand, number);
    streams[number].clock[number] = ++streams[number].position;
  }

  void use(Value buffer, int number) {
    const Stream &stream = streams[number];
    Lifetime &life = lifetimes[memoryOf(buffer)];
    if (!life.isUsed()) {
      life.last.assign(streams.size(), -1);
      life.reached = stream.clock;
    }
    int last = stream.position;
    if (last < stream.superEnd)
      last = std::min<int64_t>(stream.superEnd, int64_t(last) + spread);
    life.last[number] = std::max(life.last[number], last);
    for (auto [reached, now] : llvm::zip(life.reached, stream.clock))
      reached = std::min(reached, now);
  }

  ir::ProgramOp program;
  int spread;
  SmallVector<Stream, 4> streams;
  std::vector<Clock> events; ///< empty: not recorded yet
};

} // namespace

FailureOr<llvm::MapVector<int64_t, Lifetime>> lifetimesOf(ir::ProgramOp program,
                                                          int spread) {
  Player player(program, spread);
  if (failed(player.play()))
    return failure();
  return std::move(player.lifetimes);
}

} // namespace schedule
} // namespace anabranch
