//===- InsertEventsTest.cpp - events against an oracle --------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Random lists of commands with scopes, points, memory and ordered calls. The
// resulting streams must order exactly the commands that the program order
// within streams and the dependencies order, and no wait may be superfluous.
// Some memories are the caller's. The pass must refuse a command that
// overwrites one of them while another stream may still read it, unless such
// writes are to wait. It must refuse no other command.

#include "ir/Anabranch.h"
#include "ir/Scope.h"
#include "schedule/streams/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"
#include "gtest/gtest.h"
#include <random>
#include <set>

using namespace mlir;
using namespace anabranch;

namespace {

/// order[a][b]: a is done before b begins.
using Order = std::vector<std::vector<bool>>;

Order closure(Order order) {
  for (size_t k = 0; k < order.size(); ++k)
    for (size_t i = 0; i < order.size(); ++i)
      for (size_t j = 0; order[i][k] && j < order.size(); ++j)
        order[i][j] = order[i][j] || order[k][j];
  return order;
}

/// Memories with this number and above are inputs.
constexpr int firstInput = 3;

/// A command: the memories that it reads and writes, its stream, and the
/// earlier steps whose points it waits for.
struct Step {
  std::set<int> reads;
  int writes;
  int stream;
  std::set<int> after;
  bool isCall, ordered;
};

std::vector<Step> randomSteps(std::mt19937 &random) {
  auto below = [&](int end) { return static_cast<int>(random() % end); };
  std::vector<Step> steps(2 + below(14));
  int memories = 2 + below(8), streams = 1 + below(5);
  for (int i = 0, e = steps.size(); i < e; ++i) {
    Step &step = steps[i];
    for (int n = below(3); n > 0; --n)
      step.reads.insert(below(memories));
    step.writes = below(memories);
    step.isCall = below(3) == 0;
    step.ordered = step.isCall && below(2) == 0;
    step.stream = below(streams);
    if (i && below(4) == 0)
      step.after.insert(below(i));
  }
  return steps;
}

std::string programOf(const std::vector<Step> &steps) {
  std::string text = "anabranch.program \"main\" slots 0 {\n";
  for (int m = 0; m < 10; ++m)
    text +=
        "%b" + std::to_string(m) + " = anabranch.buffer " +
        (m < firstInput ? "\"arena\""
                        : "\"input\" of " + std::to_string(m - firstInput)) +
        " memory " + std::to_string(m) + " \"f32\" [4] bytes 16 : i64\n";
  text += "anabranch.stream \"main\" {\n";
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step &step = steps[i];
    std::string reads, after;
    for (int read : step.reads)
      reads += (reads.empty() ? "%b" : ", %b") + std::to_string(read);
    for (int point : step.after)
      after += (after.empty() ? "" : ", ") + std::to_string(point);
    std::string number = std::to_string(i);
    text += step.isCall ? "anabranch.call \"k" + number + "\"" +
                              (step.ordered ? " ordered" : "")
                        : "anabranch.launch @k" + number;
    text += (reads.empty() ? "" : " reads(" + reads + ")") + " writes(%b" +
            std::to_string(step.writes) + ")" +
            (step.isCall ? " arguments [] [] wanted [0]" : " sizes []") +
            " {anabranch.points = array<i64: " + number + ">";
    if (!after.empty())
      text += ", anabranch.after = array<i64: " + after + ">";
    if (step.stream)
      text += ", anabranch.scope = #anabranch.scope<\"" +
              std::to_string(step.stream) + "\", 0, 0>";
    text += "}\n";
  }
  return text + "}\n}\n";
}

/// The order that a program asks for. The order between a writer of an input
/// and its earlier readers counts only if `repaired`.
Order wanted(const std::vector<Step> &steps, bool repaired) {
  Order order(steps.size(), std::vector<bool>(steps.size(), false));
  for (size_t j = 0; j < steps.size(); ++j)
    for (size_t i = 0; i < j; ++i) {
      const Step &a = steps[i], &b = steps[j];
      order[i][j] =
          a.stream == b.stream || b.reads.count(a.writes) || b.after.count(i) ||
          a.writes == b.writes ||
          (a.reads.count(b.writes) && (repaired || b.writes < firstInput)) ||
          (a.ordered && b.ordered);
    }
  return closure(order);
}

bool hasHazard(const std::vector<Step> &steps) {
  Order order = wanted(steps, false);
  for (size_t j = 0; j < steps.size(); ++j)
    for (size_t i = 0; i < j; ++i)
      if (steps[i].reads.count(steps[j].writes) && !order[i][j])
        return true;
  return false;
}

/// The order of the steps in the streams, with one of the waits left out.
Order found(ModuleOp module, size_t steps, Operation *without = nullptr) {
  std::vector<std::pair<int, int>> edges;
  DenseMap<int64_t, int> events;
  std::vector<std::pair<int64_t, int>> waits;
  int nodes = steps; // records and waits are numbered after the steps
  module.walk([&](ir::StreamOp stream) {
    int last = -1;
    for (Operation &op : stream.getBody().front()) {
      int node = 0;
      if (auto launch = dyn_cast<ir::LaunchOp>(op))
        launch.getKernel().drop_front().getAsInteger(10, node);
      else if (auto call = dyn_cast<ir::CallOp>(op))
        call.getCallee().drop_front().getAsInteger(10, node);
      else
        node = nodes++;
      if (auto record = dyn_cast<ir::RecordOp>(op))
        events[record.getEvent()] = node;
      if (auto wait = dyn_cast<ir::WaitOp>(op); wait && &op != without)
        waits.push_back({wait.getEvent(), node});
      if (last >= 0)
        edges.push_back({last, node});
      last = node;
    }
  });
  Order order(nodes, std::vector<bool>(nodes, false));
  for (auto [from, to] : edges)
    order[from][to] = true;
  for (auto [event, node] : waits)
    order[events.at(event)][node] = true;
  order = closure(order);
  order.resize(steps);
  for (auto &row : order)
    row.resize(steps);
  return order;
}

LogicalResult insertEvents(ModuleOp module, bool repair) {
  PassManager passes(module.getContext(), ModuleOp::getOperationName());
  passes.addPass(createInsertEventsPass(repair));
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  return passes.run(module);
}

TEST(InsertEvents, OrdersWhatMustBeOrderedAndNothingElse) {
  DialectRegistry registry;
  ir::registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::mt19937 random(20);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<Step> steps = randomSteps(random);
    std::string text = programOf(steps);
    auto module = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(module) << text;
    bool repaired = round % 3 == 0, hazard = !repaired && hasHazard(steps);
    refused += hazard;
    ASSERT_EQ(failed(insertEvents(*module, repaired)), hazard) << text;
    if (hazard)
      continue;
    Order order = found(*module, steps.size());
    ASSERT_EQ(order, wanted(steps, repaired)) << text;
    module->walk([&](ir::WaitOp wait) {
      EXPECT_NE(found(*module, steps.size(), wait), order)
          << "needless wait for " << wait.getEvent() << " in " << text;
    });
  }
  EXPECT_GT(refused, 200);
  EXPECT_LT(refused, 1800);
}

} // namespace
