//===- JoinLanes.cpp - streams inside of a super kernel become one --------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Before: A {scope = "x"}; B {scope = "y"}; C {scope = "x"}; D {scope = "y"},
//         where A, B and C are in a super kernel that fuses streams
// After:  A {scope = "x"}; B {scope = "x", lane = "y"}; C {scope = "x"};
//         D {scope = "y", after = B}
//
// What overlaps inside is then the super kernel's to find. Commands of a stream
// that are outside keep their place before and after those that left it.
//
//===----------------------------------------------------------------------===//

#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "schedule/superkernel/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

class LaneJoiner {
public:
  explicit LaneJoiner(ir::StreamOp list) : list(list) {}

  void run() {
    findLanes();
    if (joined.empty())
      return;
    keepOrder();
    for (auto &[op, super] : joined)
      join(op, lanes[super].front());
  }

private:
  struct Lane {
    StringRef tag;
    int64_t priority;
  };

  static Lane laneOf(Operation *op) {
    ir::ScopeAttr scope = ir::scopeOf(op);
    return scope ? Lane{scope.getTag(), scope.getPriority()} : Lane{"", 0};
  }

  void findLanes() {
    for (Operation &op : list.getBody().front()) {
      for (int64_t point : ir::pointsOf(&op))
        points = std::max(points, point + 1);
      ir::SuperAttr super = ir::superOf(op.getLoc());
      if (!super || super.getName().empty() || super.getFusion() == 0)
        continue;
      auto &own = lanes[super];
      Lane lane = laneOf(&op);
      if (llvm::none_of(own, [&](Lane l) { return l.tag == lane.tag; }))
        own.push_back(lane);
      joined.insert({&op, super});
    }
    joined.remove_if(
        [&](auto &entry) { return lanes[entry.second].size() < 2; });
  }

  Lane targetOf(Operation *op) {
    ir::SuperAttr super = joined.lookup(op);
    return super ? lanes[super].front() : laneOf(op);
  }

  /// Where one of two neighbours of a stream leaves it, a point orders them.
  /// What stood before comes before all of the super kernel that is listed
  /// later, and what stood behind after all that is listed earlier, so that
  /// events don't tear it.
  void keepOrder() {
    llvm::StringMap<Operation *> last; // by tag
    for (Operation &op : list.getBody().front()) {
      Operation *before = std::exchange(last[ir::streamOf(&op)], &op);
      if (!before || targetOf(before).tag == targetOf(&op).tag)
        continue;
      order(lastOf(before, &op), firstOf(before, &op));
    }
  }

  /// The first of the super kernel of `op` that is listed behind `before`.
  Operation *firstOf(Operation *before, Operation *op) {
    Operation *first = op;
    if (ir::SuperAttr super = joined.lookup(op))
      for (; op != before; op = op->getPrevNode())
        if (joined.lookup(op) == super)
          first = op;
    return first;
  }

  /// The last of the super kernel of `before` that is listed ahead of `op`.
  Operation *lastOf(Operation *before, Operation *op) {
    Operation *last = before;
    if (ir::SuperAttr super = joined.lookup(before))
      for (; before != op; before = before->getNextNode())
        if (joined.lookup(before) == super)
          last = before;
    return last;
  }

  void order(Operation *before, Operation *after) {
    SmallVector<int64_t> made(ir::pointsOf(before)), wanted(ir::afterOf(after));
    if (made.empty())
      made.push_back(points++);
    wanted.push_back(made.back());
    ir::setPoints(before, made);
    ir::setAfter(after, wanted);
  }

  void join(Operation *op, Lane target) {
    StringRef tag = ir::streamOf(op);
    op->setAttr("anabranch.lane", StringAttr::get(op->getContext(), tag));
    ir::ScopeAttr scope = ir::scopeOf(op);
    int64_t cores = scope ? scope.getCores() : 0;
    ir::setScope(op, ir::ScopeAttr::get(op->getContext(), target.tag,
                                        target.priority, cores));
  }

  ir::StreamOp list;
  DenseMap<Attribute, SmallVector<Lane, 2>> lanes; ///< by super kernel
  llvm::MapVector<Operation *, ir::SuperAttr> joined;
  int64_t points = 0;
};

struct JoinLanesPass : ir::PassBase<JoinLanesPass, ModuleOp> {
  static constexpr StringLiteral argument = "anabranch-join-lanes";
  static constexpr StringLiteral description =
      "makes one stream of those inside of a super kernel";

  void runOnOperation() override {
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      for (auto stream : program.getBody().getOps<ir::StreamOp>())
        if (!stream.getInitialize())
          LaneJoiner(stream).run();
  }
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createJoinLanesPass() {
  return std::make_unique<schedule::JoinLanesPass>();
}

} // namespace anabranch
