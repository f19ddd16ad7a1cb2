//===- InsertEvents.cpp - one list of commands becomes streams ------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: stream "main" { A {scope = "x"}; B {scope = "y"}; C reads A {"x"},
//                         D reads A {scope = "y"} }
// After:  stream "x" { A; record 0; C }    stream "y" { B; wait 0; D }
//
// The list is a legal serial order. Commands are visited in it with one vector
// clock per stream: how far each stream has certainly come. A command waits for
// what it depends on only where the clocks do not imply it, the latest
// dependency first, so that no wait can be left out.

#include "ir/Explain.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "package/verify/ProgramVerifier.h"
#include "schedule/program/Dependencies.h"
#include "schedule/streams/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

/// For each stream, how many of its commands are certainly done.
using Clock = SmallVector<int, 4>;

struct Command {
  Operation *op;
  int stream, position;
  Clock done;             ///< the clock once this command is done
  SmallVector<int> waits; ///< commands on other streams
};

class EventInserter {
public:
  EventInserter(ir::StreamOp list, bool repair)
      : program(list->getParentOfType<ir::ProgramOp>()), list(list),
        repair(repair) {}

  LogicalResult run() {
    findStreams();
    for (Operation &op : list.getBody().front())
      if (failed(visit(op)))
        return failure();
    nameSharedEvents();
    dropIdleWaits();
    emit();
    return success();
  }

private:
  struct Stream {
    StringRef tag;
    int64_t priority;
    SmallVector<int> commands;
  };

  void findStreams() {
    numbers[""] = 0;
    streams.push_back({"", 0, {}});
    for (Operation &op : list.getBody().front()) {
      ir::ScopeAttr scope = ir::scopeOf(&op);
      StringRef tag = ir::streamOf(&op);
      if (numbers.contains(tag))
        continue;
      // Streams beyond the runtime's limit share the last stream.
      if (streams.size() < package::streamLimit)
        streams.push_back({tag, scope.getPriority(), {}});
      numbers[tag] = streams.size() - 1;
    }
    clocks.assign(streams.size(), Clock(streams.size(), 0));
  }

  //===--- dependencies ---------------------------------------------------===//

  LogicalResult visit(Operation &op) {
    int number = commands.size();
    int stream = numbers.lookup(ir::streamOf(&op));
    auto position = static_cast<int>(streams[stream].commands.size());
    commands.push_back({&op, stream, position, {}, {}});
    streams[stream].commands.push_back(number);
    auto [needed, hazards] = dependencies.add(&op);
    for (int64_t point : ir::pointsAwaited.of(&op))
      if (auto found = points.find(point); found != points.end())
        needed.insert(found->second);
    if (repair)
      needed.insert(hazards.begin(), hazards.end());
    wait(number, needed.takeVector());
    if (!repair && failed(refuseHazards(number, hazards)))
      return failure();
    for (int64_t point : ir::pointsMade.of(&op))
      points[point] = number;
    clocks[stream][stream] = position + 1;
    commands[number].done = clocks[stream];
    return success();
  }

  bool isDone(int stream, int command) const {
    const Command &c = commands[command];
    return clocks[stream][c.stream] > c.position;
  }

  /// The latest command comes first: its clock implies those of earlier ones.
  void wait(int number, SmallVector<int, 0> needed) {
    int stream = commands[number].stream;
    llvm::sort(needed, std::greater<int>());
    for (int earlier : needed) {
      if (commands[earlier].stream == stream || isDone(stream, earlier))
        continue;
      commands[number].waits.push_back(earlier);
      for (auto [known, reached] :
           llvm::zip(clocks[stream], commands[earlier].done))
        known = std::max(known, reached);
    }
  }

  LogicalResult refuseHazards(int number, const llvm::SetVector<int> &hazards) {
    for (int reader : hazards)
      if (commands[reader].stream != commands[number].stream &&
          !isDone(commands[number].stream, reader))
        return reportHazard(number, reader);
    return success();
  }

  LogicalResult reportHazard(int number, int reader) {
    const Command &writer = commands[number], &other = commands[reader];
    return writer.op->emitError()
           << "stream '" << nameOf(writer.stream)
           << "' overwrites a tensor in place while stream '"
           << nameOf(other.stream) << "' may still read it; the reader is\n  "
           << ir::describeLocation(other.op->getLoc())
           << "\nLet the write wait: anabranch.wait(tensor, what the reader "
              "returns) before it, on its stream; or set hazards=\"wait\".\n"
              "The write is";
  }

  StringRef nameOf(int stream) const {
    return streams[stream].tag.empty() ? "main" : streams[stream].tag;
  }

  //===--- the streams ----------------------------------------------------===//

  /// Declares the events of other graphs that this one waits for, and its own
  /// that other graphs wait for.
  void nameSharedEvents() {
    llvm::SetVector<Attribute> awaits, records;
    for (auto fence : list.getBody().getOps<ir::FenceOp>()) {
      if (fence.getAwaits())
        awaits.insert(fence.getAwaitsAttr());
      if (fence.getRecords())
        records.insert(fence.getRecordsAttr());
    }
    Builder builder(program.getContext());
    if (!awaits.empty())
      program.setAwaitsAttr(builder.getArrayAttr(awaits.getArrayRef()));
    if (!records.empty())
      program.setRecordsAttr(builder.getArrayAttr(records.getArrayRef()));
  }

  /// Drops the waits of a fence if nothing follows it on its stream and nobody
  /// waits for it. Later commands come first, since their waits make events
  /// needed.
  void dropIdleWaits() {
    SmallVector<bool> busy(streams.size(), false);
    for (int number = commands.size(); number-- > 0;) {
      Command &command = commands[number];
      if (!isa<ir::FenceOp>(command.op) || awaited.contains(number))
        busy[command.stream] = true;
      if (!busy[command.stream])
        command.waits.clear();
      for (int earlier : command.waits)
        awaited.insert(earlier);
    }
  }

  void emit() {
    OpBuilder b(list);
    DenseMap<int, int64_t> events;
    for (int command : llvm::seq<int>(0, commands.size()))
      if (awaited.contains(command))
        events.try_emplace(command, events.size());
    for (const Stream &stream : streams) {
      auto op = b.create<ir::StreamOp>(
          list.getLoc(), b.getStringAttr(nameOf(&stream - streams.data())),
          b.getI64IntegerAttr(stream.priority), UnitAttr());
      OpBuilder body = OpBuilder::atBlockEnd(&op.getBody().emplaceBlock());
      for (int number : stream.commands)
        emitCommand(body, commands[number], events, number);
      if (op.getBody().front().empty() && streams.size() > 1)
        op.erase();
    }
    program.setEvents(events.size());
    list.erase();
  }

  static void keepCores(Operation *op) {
    ir::ScopeAttr scope = ir::scopeOf(op);
    auto launch = dyn_cast<ir::LaunchOp>(op);
    if (launch && scope && scope.getCores() > 0)
      launch.setCores(scope.getCores());
  }

  void emitCommand(OpBuilder &b, Command &command,
                   const DenseMap<int, int64_t> &events, int number) {
    Location loc = command.op->getLoc();
    for (int earlier : command.waits)
      b.create<ir::WaitOp>(loc, events.lookup(earlier));
    if (isa<ir::FenceOp>(command.op)) {
      command.op->erase();
    } else {
      keepCores(command.op);
      ir::dropOrder(command.op);
      command.op->moveBefore(b.getBlock(), b.getBlock()->end());
    }
    if (auto event = events.find(number); event != events.end())
      b.create<ir::RecordOp>(loc, event->second);
  }

  ir::ProgramOp program;
  ir::StreamOp list;
  bool repair;
  llvm::MapVector<StringRef, int> numbers; // tag -> stream
  SmallVector<Stream, 4> streams;
  SmallVector<Clock> clocks;
  std::vector<Command> commands;
  Dependencies dependencies;
  DenseMap<int64_t, int> points; // -> command
  DenseSet<int> awaited;
};

struct InsertEventsPass : ir::PassBase<InsertEventsPass, ModuleOp> {
  static constexpr StringLiteral argument = "anabranch-insert-events";
  static constexpr StringLiteral description =
      "splits the list of commands into streams with events between them";

  explicit InsertEventsPass(bool repair) { repairHazards = repair; }
  InsertEventsPass(const InsertEventsPass &other) : PassBase(other) {
    repairHazards = other.repairHazards;
  }

  void runOnOperation() override {
    for (ir::StreamOp stream : ir::streamsOfCalls(getOperation()))
      if (failed(EventInserter(stream, repairHazards).run()))
        return signalPassFailure();
  }

  Option<bool> repairHazards{
      *this, "repair-hazards",
      llvm::cl::desc("let in-place writes wait instead of refusing them")};
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createInsertEventsPass(bool repairHazards) {
  return std::make_unique<schedule::InsertEventsPass>(repairHazards);
}

} // namespace anabranch
