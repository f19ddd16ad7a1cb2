//===- NumberFences.cpp - fences order operators by number ----------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: %d = A                       After: %d = A {points = [0]}
//         %y = fence passes(%x)               fence {after = [0], points = [1]}
//                    after(%d)
//         %z = B %y                           %z = B %x {after = [1]}
//
// (The attributes are `anabranch.points` and `anabranch.after`.) Fusion can
// then look at values as if there were no fence, and at the order apart from
// them.

#include "analysis/IterationSpace.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/streams/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace anabranch {
namespace schedule {
namespace {

bool isCloned(Operation *op) { return classify(op) == OpKind::Cloned; }

class Numbering {
public:
  void add(ir::FenceOp fence) {
    for (Value value : fence.getAfter())
      waitFor(value, fence);
    for (Value result : fence.getResults())
      markReaders(result, fence);
    for (auto [result, value] :
         llvm::zip(fence.getResults(), fence.getPasses()))
      result.replaceAllUsesWith(value);
  }

  void write() {
    for (auto &[op, point] : points)
      ir::pointsMade.set(op, {point});
    for (auto &[op, list] : after)
      ir::pointsAwaited.set(op, list.getArrayRef());
  }

private:
  int64_t pointOf(Operation *op) {
    return points.try_emplace(op, points.size()).first->second;
  }

  /// Orders the fence after the operator that makes the value, also through
  /// views. Arguments and constants exist from the start.
  void waitFor(Value value, ir::FenceOp fence) {
    Operation *op = value.getDefiningOp();
    if (!op || !isa<RankedTensorType>(value.getType()))
      return;
    if (!isCloned(op)) {
      after[fence].insert(pointOf(op));
      return;
    }
    for (Value operand : analysis::allOperands(op))
      waitFor(operand, fence);
  }

  /// Orders each reader of the value, also through views, after the fence.
  void markReaders(Value value, ir::FenceOp fence) {
    for (Operation *user : value.getUsers()) {
      if (user == fence || user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (after[user].insert(pointOf(fence)) && isCloned(user))
        for (Value result : user->getResults())
          markReaders(result, fence);
    }
  }

  llvm::MapVector<Operation *, int64_t> points;
  llvm::MapVector<Operation *, llvm::SetVector<int64_t>> after;
};

/// Replaces the fence by one without operands, or by none if it orders nothing.
void replace(ir::FenceOp fence) {
  bool orders =
      !ir::pointsAwaited.of(fence).empty() || !ir::pointsMade.of(fence).empty();
  if (orders || fence.getAwaits() || fence.getRecords()) {
    OpBuilder builder(fence);
    auto bare = builder.create<ir::FenceOp>(
        fence.getLoc(), TypeRange(), ValueRange(), ValueRange(),
        fence.getAwaitsAttr(), fence.getRecordsAttr());
    bare->setDiscardableAttrs(fence->getDiscardableAttrDictionary());
  }
  fence.erase();
}

LogicalResult numberFences(func::FuncOp main) {
  SmallVector<ir::FenceOp> fences(main.getOps<ir::FenceOp>());
  if (fences.empty())
    return success();
  Numbering numbering;
  for (ir::FenceOp fence : fences)
    numbering.add(fence);
  // One stream runs in order anyway.
  if (llvm::any_of(main.getBody().front(),
                   [](Operation &op) { return !ir::streamOf(&op).empty(); }))
    numbering.write();
  for (ir::FenceOp fence : fences)
    replace(fence);
  return success();
}

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createNumberFencesPass() {
  return ir::makePass<func::FuncOp>(
      "anabranch-number-fences", "takes the tensors from the fences of @main",
      schedule::numberFences);
}

} // namespace anabranch
