//===- FormDispatches.cpp - groups of operators become dispatches ---------===//
// SPDX-License-Identifier: Apache-2.0
//
//   %0 = linalg.generic (relu) %x            %0 = anabranch.dispatch ins(%x) {
//   %1 = linalg.generic (add) %0, %y    ->     relu, add
//                                            }
//
// Grouping decides which operators share a dispatch; this pass builds the
// regions. It clones views and constants into each reader. Reshapes of whole
// stored tensors stay outside.

#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "ir/Sizes.h"
#include "schedule/fusion/GroupFuser.h"
#include "schedule/fusion/Layouts.h"
#include "schedule/fusion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

StringRef kindName(OpKind kind) {
  switch (kind) {
  case OpKind::Contraction:
    return "contraction";
  case OpKind::Attention:
    return "attention";
  case OpKind::Scatter:
    return "scatter";
  case OpKind::Scan:
    return "scan";
  case OpKind::Fft:
    return "fft";
  default:
    return "loops";
  }
}

namespace {

/// Maps the values of @main to the values of the new operators.
class OuterValues {
public:
  OuterValues(const Grouping &grouping, func::FuncOp main)
      : grouping(grouping), main(main) {}

  /// Whether the tensor has memory of its own: an argument, a stored result, or
  /// a reshape of one.
  bool isBoundary(Value value) const {
    bool reshaped = false;
    for (Operation *op = value.getDefiningOp();
         isReshape(op) && grouping.isCloned(op); op = value.getDefiningOp()) {
      value = op->getOperand(0);
      reshaped = true;
    }
    if (auto argument = dyn_cast<BlockArgument>(value))
      return !reshaped || !stridesOfArgument(main, argument.getArgNumber());
    return made.contains(value) || isCall(value.getDefiningOp());
  }

  /// The new value for a boundary value.
  Value get(OpBuilder &builder, Value value) {
    if (Value known = made.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    if (!op || isCall(op))
      return value;
    IRMapping mapping;
    mapping.map(op->getOperand(0), get(builder, op->getOperand(0)));
    Value result = builder.clone(*op, mapping)->getResult(0);
    made.map(value, result);
    return result;
  }

  void set(Value old, Value fresh) { made.map(old, fresh); }

private:
  static bool isCall(Operation *op) { return isa_and_nonnull<ir::AtenOp>(op); }

  const Grouping &grouping;
  func::FuncOp main;
  IRMapping made;
};

/// Builds the dispatch of one group.
class DispatchBuilder {
public:
  DispatchBuilder(OpBuilder &builder, const Grouping &grouping,
                  OuterValues &outer, const FusionGroup &group)
      : outerBuilder(builder), builder(builder), grouping(grouping),
        outer(outer), group(group) {}

  void build() {
    collectResults();
    SmallVector<Value> dims = resultDims();
    auto block = std::make_unique<Block>();
    body = block.get();
    builder.setInsertionPointToEnd(body);
    for (int index : group.nodes)
      cloneOp(grouping.node(index).op);
    SmallVector<Value> yielded;
    for (Value result : results)
      yielded.push_back(inside.lookup(result));
    builder.create<ir::YieldOp>(location(), yielded);

    auto dispatch = outerBuilder.create<ir::DispatchOp>(
        location(), ValueRange(results).getTypes(), inputs, indices, dims);
    dispatch.getBody().push_back(block.release());
    dispatch->setAttr("kind", outerBuilder.getStringAttr(kindName(group.kind)));
    if (group.constant)
      dispatch->setAttr("initialize", outerBuilder.getUnitAttr());
    else
      setOrder(dispatch);
    for (auto [old, fresh] : llvm::zip(results, dispatch.getResults()))
      outer.set(old, fresh);
  }

private:
  void collectResults() {
    for (int index : group.nodes) {
      const Node &node = grouping.node(index);
      if (grouping.isStored(group, node))
        llvm::append_range(results, node.op->getResults());
    }
  }

  SmallVector<Value> resultDims() {
    SmallVector<Value> dims;
    for (Value result : results) {
      auto type = cast<RankedTensorType>(result.getType());
      for (int64_t i = 0; i < type.getRank(); ++i)
        if (type.isDynamicDim(i))
          dims.push_back(getValueOrCreateConstantIndexOp(
              outerBuilder, result.getLoc(),
              ir::sizeOf(outerBuilder, result.getLoc(), result, i)));
    }
    return dims;
  }

  void setOrder(ir::DispatchOp dispatch) {
    llvm::SetVector<int64_t> points, after;
    for (int index : group.nodes) {
      Operation *op = grouping.node(index).op;
      for (int64_t point : ir::pointsMade.of(op))
        points.insert(point);
      for (int64_t point : ir::pointsAwaited.of(op))
        after.insert(point);
    }
    ir::setScope(dispatch, grouping.node(group.nodes.front()).scope);
    ir::pointsMade.set(dispatch, points.getArrayRef());
    ir::pointsAwaited.set(dispatch, after.getArrayRef());
  }

  Location location() {
    SmallVector<Location> locations;
    for (int index : group.nodes)
      locations.push_back(grouping.node(index).op->getLoc());
    return FusedLoc::get(outerBuilder.getContext(), locations);
  }

  Value insideValue(Value value) {
    if (Value known = inside.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    bool isConstant = op && op->hasTrait<OpTrait::ConstantLike>();
    if (isa<RankedTensorType>(value.getType())) {
      if (outer.isBoundary(value)) {
        inputs.push_back(outer.get(outerBuilder, value));
        inside.map(value,
                   body->insertArgument(inputs.size() - 1, value.getType(),
                                        value.getLoc()));
        return inside.lookup(value);
      }
    } else if (!op || (value.getType().isIndex() && !isConstant)) {
      indices.push_back(value);
      inside.map(value, body->addArgument(value.getType(), value.getLoc()));
      return inside.lookup(value);
    }
    cloneOp(op);
    return inside.lookup(value);
  }

  void cloneOp(Operation *op) {
    for (Value operand : analysis::allOperands(op))
      insideValue(operand);
    // Order is between kernels. Without the marks, equal kernels look equal.
    ir::dropOrder(builder.clone(*op, inside));
  }

  OpBuilder &outerBuilder;
  OpBuilder builder;
  const Grouping &grouping;
  OuterValues &outer;
  const FusionGroup &group;
  Block *body = nullptr;
  IRMapping inside;
  SmallVector<Value> results, inputs, indices;
};

/// Rewrites sizes of intermediate tensors as arithmetic on sizes of inputs, so
/// that no index depends on a kernel.
LogicalResult resolveDims(func::FuncOp main) {
  IRRewriter rewriter(main.getContext());
  SmallVector<tensor::DimOp> dims;
  main.walk([&](tensor::DimOp dim) { dims.push_back(dim); });
  for (tensor::DimOp dim : dims) {
    std::optional<int64_t> index = dim.getConstantIndex();
    if (!index)
      return dim.emitOpError("must name a constant dimension");
    if (!dim.getSource().getDefiningOp())
      continue;
    rewriter.setInsertionPoint(dim);
    OpFoldResult size =
        ir::sizeOf(rewriter, dim.getLoc(), dim.getSource(), *index);
    if (auto attr = dyn_cast<Attribute>(size))
      size = rewriter
                 .create<arith::ConstantIndexOp>(
                     dim.getLoc(), cast<IntegerAttr>(attr).getInt())
                 .getResult();
    rewriter.replaceOp(dim, cast<Value>(size));
  }
  return success();
}

/// Moves index arithmetic to the front. It depends on arguments only.
LogicalResult hoistScalars(Block &block) {
  Operation *last = nullptr;
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (classify(&op) != OpKind::Scalar)
      continue;
    for (Value operand : op.getOperands())
      if (isa<RankedTensorType>(operand.getType()) && operand.getDefiningOp())
        return op.emitOpError("makes a size from computed data");
    if (last)
      op.moveAfter(last);
    else
      op.moveBefore(&block, block.begin());
    last = &op;
  }
  return success();
}

/// Erases operators without readers. MLIR keeps an unread operator if its
/// body may fail; but a check of an unread result is not wanted.
void dropUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    bool tensors = llvm::any_of(op.getResultTypes(), [](Type type) {
      return isa<RankedTensorType>(type);
    });
    if (tensors && op.use_empty() && !isa<ir::AtenOp>(op))
      op.erase();
  }
}

/// Merges operators into groups. What turns out too large for load to keep is
/// left to the calls, where it has other neighbours to merge with.
std::unique_ptr<Grouping> formGroups(func::FuncOp main) {
  Grouping::Operators ofCalls;
  while (true) {
    auto grouping = std::make_unique<Grouping>(main, ofCalls);
    GroupFuser fuser(*grouping);
    fuser.run();
    Grouping::Operators large = grouping->tooLargeToKeep();
    if (large.empty()) {
      fuser.explain();
      return grouping;
    }
    ofCalls.insert(large.begin(), large.end());
  }
}

LogicalResult formDispatches(func::FuncOp main) {
  Block &block = main.getBody().front();
  if (failed(resolveDims(main)) || failed(hoistScalars(block)))
    return failure();
  // First: a group would compute them for the sake of their checks.
  dropUnread(block);
  std::unique_ptr<Grouping> groups = formGroups(main);
  const Grouping &grouping = *groups;

  Operation *terminator = block.getTerminator();
  OpBuilder builder(terminator);
  OuterValues outer(grouping, main);
  auto rewire = [&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      if (isa<RankedTensorType>(operand.get().getType()))
        operand.set(outer.get(builder, operand.get()));
  };
  for (const FusionGroup *group : grouping.order()) {
    if (group->kind != OpKind::Fallback && group->kind != OpKind::Fence) {
      DispatchBuilder(builder, grouping, outer, *group).build();
      continue;
    }
    Operation *call = grouping.node(group->nodes.front()).op;
    rewire(call);
    call->moveBefore(terminator);
  }
  rewire(terminator);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (classify(&op) != OpKind::Return && !isa<ir::DispatchOp>(op) &&
        isOpTriviallyDead(&op))
      op.erase();
  return success();
}

} // namespace
} // namespace schedule

std::unique_ptr<Pass> createFormDispatchesPass() {
  return ir::makePass<func::FuncOp, ir::AnabranchDialect, arith::ArithDialect,
                      tensor::TensorDialect>(
      "anabranch-form-dispatches",
      "groups the operators of @main into dispatches",
      schedule::formDispatches);
}

} // namespace anabranch
