//===- AssignStreams.cpp - branches that are worth a stream ---------------===//
// SPDX-License-Identifier: Apache-2.0
//
//   Before: A; B; C reads A, B       (A and B too small to be split)
//   After:  A; B {scope = "auto1"}; C reads A, B
//
// Critical-path list scheduling. The pass takes commands in the order of the
// time that remains after them. Each either runs on the worker where it ends
// first, or is split over all workers. The workers become streams only if the
// schedule is clearly shorter than one stream.

#include "ir/Explain.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "schedule/cost/CostModel.h"
#include "schedule/program/Dependencies.h"
#include "schedule/streams/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/FormatVariadic.h"
#include <queue>

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

/// Streams must take at most this part of one stream's time, since the model
/// may err.
constexpr double worthwhile = 0.75;
/// Microseconds from an event on one worker to the command that waits on
/// another.
constexpr double handOverMicroseconds = 1;

class Scheduler {
public:
  Scheduler(ir::StreamOp list, const machine::MachineRates &machine)
      : list(list), machine(machine) {}

  void run() {
    collect();
    double serial = 0;
    for (const Command &command : commands)
      serial += std::min(command.cost.alone, command.cost.split);
    double beside = schedule();
    bool pays = beside < worthwhile * serial;
    if (pays)
      mark();
    if (ir::isExplaining(list.getContext()))
      for (const Command &command : commands)
        explain(command, pays);
    ir::explainRefusal(
        list.getLoc(), pays ? "one stream" : "several streams",
        llvm::formatv("the model expects {0:f1} us on one stream, {1:f1} us on "
                      "{2} workers",
                      serial, beside, machine.workers)
            .str());
  }

private:
  struct Command {
    Operation *op;
    Cost cost;
    SmallVector<int> before, after;
    double remaining = 0; ///< from its begin to the end of all
    double end = 0;
    int worker = 0;
    bool splits = false;
  };

  //===--- dependencies ---------------------------------------------------===//

  void collect() {
    auto module = list->getParentOfType<ModuleOp>();
    Dependencies dependencies;
    for (Operation &op : list.getBody().front()) {
      int number = commands.size();
      commands.push_back({&op, costOf(&op, module, machine), {}, {}});
      auto [needed, overwritten] = dependencies.add(&op);
      for (int earlier : needed)
        link(earlier, number);
      for (int earlier : overwritten)
        link(earlier, number);
      // Calls run on the caller's thread, one after the other.
      if (isa<ir::CallOp>(op)) {
        if (lastCall >= 0)
          link(lastCall, number);
        lastCall = number;
      }
    }
    for (Command &command : llvm::reverse(commands)) {
      for (int later : command.after)
        command.remaining =
            std::max(command.remaining, commands[later].remaining);
      command.remaining += std::min(command.cost.beside, command.cost.split);
    }
  }

  void link(int earlier, int later) {
    if (llvm::is_contained(commands[later].before, earlier))
      return;
    commands[later].before.push_back(earlier);
    commands[earlier].after.push_back(later);
  }

  //===--- the schedule ---------------------------------------------------===//

  /// Schedules all commands. Returns the time at which the last one is done.
  double schedule() {
    // The other workers sleep when a call begins.
    std::vector<double> free(machine.workers, machine.wakeMicroseconds);
    free[0] = 0;
    std::vector<int> missing;
    std::priority_queue<std::pair<double, int>> ready;
    for (auto [number, command] : llvm::enumerate(commands)) {
      missing.push_back(command.before.size());
      if (missing.back() == 0)
        ready.push({command.remaining, -static_cast<int>(number)});
    }
    while (!ready.empty()) {
      Command &command = commands[-ready.top().second];
      ready.pop();
      place(command, free);
      for (int later : command.after)
        if (--missing[later] == 0)
          ready.push({commands[later].remaining, -later});
    }
    return *llvm::max_element(free);
  }

  double readyOn(const Command &command, int worker) const {
    double time = 0;
    for (int earlier : command.before) {
      const Command &other = commands[earlier];
      time = std::max(time,
                      other.end +
                          (other.worker == worker ? 0 : handOverMicroseconds));
    }
    return time;
  }

  void place(Command &command, std::vector<double> &free) {
    int best = 0;
    double bestEnd = std::numeric_limits<double>::max();
    bool isCall = isa<ir::CallOp>(command.op);
    for (int worker = 0; worker < (isCall ? 1 : machine.workers); ++worker) {
      double end = std::max(free[worker], readyOn(command, worker)) +
                   command.cost.beside;
      if (end < bestEnd) {
        best = worker;
        bestEnd = end;
      }
    }
    double all = std::max(*llvm::max_element(free), readyOn(command, 0)) +
                 command.cost.split;
    bool splits = command.cost.split < command.cost.alone && all <= bestEnd;
    command.splits = splits;
    command.worker = splits ? 0 : best;
    command.end = splits ? all : bestEnd;
    if (splits)
      std::fill(free.begin(), free.end(), all);
    else
      free[best] = bestEnd;
  }

  void mark() {
    for (Command &command : commands) {
      if (command.worker == 0)
        continue;
      std::string tag = "auto" + std::to_string(command.worker);
      ir::ScopeAttr scope = ir::scopeOf(command.op);
      ir::setScope(command.op,
                   ir::ScopeAttr::get(list.getContext(), tag, 0,
                                      scope ? scope.getCores() : 0));
    }
  }

  /// Explains why a command was moved to another stream, or was not.
  void explain(const Command &command, bool pays) {
    const Cost &cost = command.cost;
    std::string times =
        llvm::formatv("{0:f1} us alone, {1:f1} us beside others, {2:f1} us on "
                      "all workers",
                      cost.alone, cost.beside, cost.split)
            .str();
    auto say = [&](StringRef what, const Twine &reason) {
      ir::explainRefusal(command.op->getLoc(), what,
                         reason + " (" + times + ")");
    };
    if (command.worker != 0 && pays)
      return say("main stream", "runs on 'auto" + Twine(command.worker) +
                                    "' beside others, where it ends first");
    if (command.worker != 0)
      return say("another stream",
                 "all branches together would gain too little");
    if (command.splits)
      return say("another stream", "all workers share it");
    if (isa<ir::CallOp>(command.op))
      return say("another stream", "only the calling thread calls PyTorch");
    say("another stream", "it ends first on the main stream");
  }

  ir::StreamOp list;
  const machine::MachineRates &machine;
  std::vector<Command> commands;
  int lastCall = -1;
};

struct AssignStreamsPass : ir::PassBase<AssignStreamsPass, ModuleOp> {
  static constexpr StringLiteral argument = "anabranch-assign-streams";
  static constexpr StringLiteral description =
      "finds commands that are worth a stream of their own";

  explicit AssignStreamsPass(const machine::MachineRates &model) {
    workers = model.workers;
    gflops = model.gflops;
    gflopsAll = model.gflopsAll;
    cacheGBs = model.cacheGBs;
    cacheGBsAll = model.cacheGBsAll;
    wake = model.wakeMicroseconds;
  }
  AssignStreamsPass(const AssignStreamsPass &other) : PassBase(other) {
    copyOptionValuesFrom(&other);
  }

  void runOnOperation() override {
    machine::MachineRates machine{workers,  gflops,      gflopsAll,
                                  cacheGBs, cacheGBsAll, wake};
    if (machine.workers < 2)
      return;
    for (ir::StreamOp stream : ir::streamsOfCalls(getOperation()))
      if (!isMarked(stream))
        Scheduler(stream, machine).run();
  }

  /// Whether the user marked streams. The pass then changes nothing.
  static bool isMarked(ir::StreamOp stream) {
    return llvm::any_of(stream.getBody().front(), [](Operation &op) {
      return !ir::streamOf(&op).empty() || isa<ir::FenceOp>(op);
    });
  }

  Option<int> workers{*this, "workers", llvm::cl::desc("threads of a call")};
  Option<double> gflops{*this, "gflops", llvm::cl::desc("of one worker")};
  Option<double> gflopsAll{*this, "gflops-all", llvm::cl::desc("of all")};
  Option<double> cacheGBs{*this, "gbs", llvm::cl::desc("of one worker")};
  Option<double> cacheGBsAll{*this, "gbs-all", llvm::cl::desc("of all")};
  Option<double> wake{*this, "wake", llvm::cl::desc("microseconds")};
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass>
createAssignStreamsPass(const machine::MachineRates &machine) {
  return std::make_unique<schedule::AssignStreamsPass>(machine);
}

} // namespace anabranch
