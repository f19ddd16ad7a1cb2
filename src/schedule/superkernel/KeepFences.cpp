//===- KeepFences.cpp - super kernels keep the order that users ask for ---===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: A {scope = "x", points = [0]}; fence {scope = "y", after = [0]};
//         B {scope = "y"}
// After:  A {fences_after = [0]}; fence; B {fences_before = [0]}
//
// (The attributes begin with `anabranch.`.) Streams keep their order by
// themselves. The members of a super kernel keep the order of data alone, and
// fences are gone when the super kernel is formed. So each command names the
// fences that come after it and the fences that come before it.
//
// A later command of the stream comes after all commands that the fence waits
// for. A command of another stream may name the fence's point, as a wait for an
// event does. It also comes after all earlier commands of the fence's stream.

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

class FenceKeeper {
public:
  explicit FenceKeeper(ir::StreamOp list) : list(list) {}

  void run() {
    if (list.getBody().getOps<ir::FenceOp>().empty())
      return;
    for (Operation &op : list.getBody().front()) {
      if (auto fence = dyn_cast<ir::FenceOp>(op))
        addFence(fence);
      else
        addCommand(&op);
      for (int64_t point : ir::pointsMade.of(&op))
        makers[point] = &op;
    }
    for (auto &[op, numbers] : fencesAfter)
      ir::fencesAfter.set(op, numbers);
    for (auto &[op, numbers] : fencesBefore)
      ir::fencesBefore.set(op, numbers);
  }

private:
  using Commands = llvm::SetVector<Operation *>;

  struct Stream {
    Commands given;              ///< and the commands that its fences wait for
    SmallVector<int64_t> fences; ///< that hold up later commands
  };
  /// The point of a fence: the commands before it, and the fence's number once
  /// a command needs it.
  struct Point {
    StringRef stream;
    Commands before;
    int64_t number = -1;
  };

  int64_t newFence(const Commands &before) {
    for (Operation *op : before)
      fencesAfter[op].push_back(count);
    return count++;
  }

  void addFence(ir::FenceOp fence) {
    Stream &stream = streams[ir::streamOf(fence)];
    Commands awaited;
    for (int64_t point : ir::pointsAwaited.of(fence)) {
      Operation *maker = makers.lookup(point);
      if (auto other = points.find(maker); other != points.end())
        awaited.insert(other->second.before.begin(),
                       other->second.before.end());
      else if (maker)
        awaited.insert(maker);
    }
    if (!awaited.empty())
      stream.fences.push_back(newFence(awaited));
    stream.given.insert(awaited.begin(), awaited.end());
    if (!ir::pointsMade.of(fence).empty())
      points[fence] = {ir::streamOf(fence), stream.given};
  }

  void addCommand(Operation *op) {
    Stream &stream = streams[ir::streamOf(op)];
    SmallVector<int64_t> &fences = fencesBefore[op];
    fences = stream.fences;
    for (int64_t number : ir::pointsAwaited.of(op)) {
      auto point = points.find(makers.lookup(number));
      // On the fence's own stream, `stream.fences` already has it.
      if (point == points.end() || point->second.stream == ir::streamOf(op) ||
          point->second.before.empty())
        continue;
      if (point->second.number < 0)
        point->second.number = newFence(point->second.before);
      fences.push_back(point->second.number);
    }
    stream.given.insert(op);
  }

  ir::StreamOp list;
  llvm::StringMap<Stream> streams; ///< by tag
  DenseMap<int64_t, Operation *> makers;
  DenseMap<Operation *, Point> points; ///< by fence
  llvm::MapVector<Operation *, SmallVector<int64_t>> fencesAfter, fencesBefore;
  int64_t count = 0; ///< of the numbers given so far
};

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createKeepFencesPass() {
  return ir::makeStreamPass(
      "anabranch-keep-fences",
      "commands name the fences that come after and before them",
      [](ir::StreamOp stream) { schedule::FenceKeeper(stream).run(); });
}

} // namespace anabranch
