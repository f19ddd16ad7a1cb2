//===- JoinStreams.cpp - streams inside of a super kernel become one ------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: A {scope = "x"}; B {scope = "y"}; C {scope = "x"}; D {scope = "y"},
//         where A, B and C are in a super kernel that fuses streams
// After:  A {scope = "x"}; B {scope = "x", stream = "y"}; C {scope = "x"};
//         D {scope = "y", after = B}
//
// The super kernel then finds the overlap inside by itself. Commands of a
// stream that stay outside keep their place before and after those that left
// it.

#include "ir/Scope.h"
#include "ir/StreamPass.h"
#include "schedule/superkernel/Passes.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

class StreamJoiner {
public:
  explicit StreamJoiner(ir::StreamOp list) : list(list) {}

  void run() {
    findStreams();
    if (joined.empty())
      return;
    keepOrder();
    for (auto &[op, super] : joined)
      join(op, streams[super].front());
  }

private:
  struct Stream {
    StringRef tag;
    int64_t priority;
  };

  static Stream streamOf(Operation *op) {
    ir::ScopeAttr scope = ir::scopeOf(op);
    return scope ? Stream{scope.getTag(), scope.getPriority()} : Stream{"", 0};
  }

  void findStreams() {
    for (Operation &op : list.getBody().front()) {
      for (int64_t point : ir::pointsMade.of(&op))
        points = std::max(points, point + 1);
      ir::SuperAttr super = ir::superOf(op.getLoc());
      if (!super || super.getName().empty() || super.getFusion() == 0)
        continue;
      auto &own = streams[super];
      Stream stream = streamOf(&op);
      if (llvm::none_of(own, [&](Stream s) { return s.tag == stream.tag; }))
        own.push_back(stream);
      joined.insert({&op, super});
    }
    joined.remove_if(
        [&](auto &entry) { return streams[entry.second].size() < 2; });
  }

  Stream targetOf(Operation *op) {
    ir::SuperAttr super = joined.lookup(op);
    return super ? streams[super].front() : streamOf(op);
  }

  /// Orders neighbours of a stream of which one leaves it, by a point. The
  /// first comes before every command of the super kernel that is listed later;
  /// the second comes after every command that is listed earlier. So events do
  /// not tear the super kernel.
  void keepOrder() {
    llvm::StringMap<Operation *> last; // by tag
    for (Operation &op : list.getBody().front()) {
      Operation *before = std::exchange(last[ir::streamOf(&op)], &op);
      if (!before || targetOf(before).tag == targetOf(&op).tag)
        continue;
      order(edgeOf(before, &op), edgeOf(&op, before));
    }
  }

  /// The command of `op`'s super kernel that is listed nearest to `end`,
  /// between `op` and `end`; `op` itself if it is in no super kernel.
  Operation *edgeOf(Operation *op, Operation *end) {
    Operation *edge = op;
    ir::SuperAttr super = joined.lookup(op);
    bool isForward = op->isBeforeInBlock(end);
    for (; super && op != end;
         op = isForward ? op->getNextNode() : op->getPrevNode())
      if (joined.lookup(op) == super)
        edge = op;
    return edge;
  }

  void order(Operation *before, Operation *after) {
    SmallVector<int64_t> made(ir::pointsMade.of(before)),
        wanted(ir::pointsAwaited.of(after));
    if (made.empty())
      made.push_back(points++);
    wanted.push_back(made.back());
    ir::pointsMade.set(before, made);
    ir::pointsAwaited.set(after, wanted);
  }

  void join(Operation *op, Stream target) {
    StringRef tag = ir::streamOf(op);
    op->setAttr("anabranch.member_stream",
                StringAttr::get(op->getContext(), tag));
    ir::ScopeAttr scope = ir::scopeOf(op);
    int64_t cores = scope ? scope.getCores() : 0;
    ir::setScope(op, ir::ScopeAttr::get(op->getContext(), target.tag,
                                        target.priority, cores));
  }

  ir::StreamOp list;
  DenseMap<Attribute, SmallVector<Stream, 2>> streams; ///< by super kernel
  llvm::MapVector<Operation *, ir::SuperAttr> joined;
  int64_t points = 0;
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createJoinStreamsPass() {
  return ir::makeStreamPass(
      "anabranch-join-streams",
      "makes one stream of those inside of a super kernel",
      [](ir::StreamOp stream) { schedule::StreamJoiner(stream).run(); });
}

} // namespace anabranch
