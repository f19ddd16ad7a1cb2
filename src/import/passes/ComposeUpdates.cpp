//===- ComposeUpdates.cpp - updates of parts become updates of wholes -----===//
// SPDX-License-Identifier: Apache-2.0
//
//   %p = extract_slice %c[1, 0] [1, 8]
//   %u = insert_slice %x into %p[2] [4]         %r = insert_slice %x into
//   %r = insert_slice %u into %c[1, 0] [1, 8] ->                %c[1, 2] [1, 4]
//
// The same holds for a scatter into %p. So what writes into a view of a view,
// such as the cache of one layer, may be written in place, and copies nothing
// that it leaves as it is.

#include "import/lowering/Shapes.h"
#include "import/passes/Passes.h"
#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace anabranch {
namespace importer {
namespace {

/// The sizes of a shape that are not one.
SmallVector<int64_t> longSizes(Value tensor) {
  SmallVector<int64_t> sizes;
  for (int64_t size : cast<RankedTensorType>(tensor.getType()).getShape())
    if (size != 1)
      sizes.push_back(size);
  return sizes;
}

/// The tensor before reshapes that add and drop sizes of one.
Value beforeUnitSizes(Value value) {
  while (isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(
      value.getDefiningOp())) {
    Value source = value.getDefiningOp()->getOperand(0);
    if (longSizes(source) != longSizes(value))
      break;
    value = source;
  }
  return value;
}

/// What an operation writes into; null if it updates no tensor.
Value updatedBy(Operation *op) {
  if (auto insert = dyn_cast_or_null<tensor::InsertSliceOp>(op))
    return insert.getDest();
  auto scatter = dyn_cast_or_null<ir::ScatterOp>(op);
  return scatter && scatter.getInit() != scatter.getUpdates()
             ? scatter.getInit()
             : Value();
}

/// A part of a tensor that `outer` writes back after updates of it.
class UpdatedPart {
public:
  explicit UpdatedPart(tensor::InsertSliceOp outer)
      : outer(outer), keeper(outer), builder(outer, &keeper) {
    llvm::SmallBitVector dropped = outer.getDroppedDims();
    for (int64_t dim = 0; dim < outer.getDestType().getRank(); ++dim)
      if (!dropped.test(dim))
        dims.push_back(dim);
  }

  /// Makes the updates those of the whole tensor.
  void compose() {
    SmallVector<Operation *> updates;
    Value value = outer.getSource();
    for (; !isPart(value); value = updatedBy(updates.back())) {
      Operation *op = value.getDefiningOp();
      if (!updatedBy(op) || !value.hasOneUse() ||
          ir::scopeOf(op) != ir::scopeOf(outer))
        return;
      updates.push_back(op);
    }
    Value whole = outer.getDest();
    for (Operation *op : llvm::reverse(updates))
      whole = isa<ir::ScatterOp>(op)
                  ? scatterInto(whole, cast<ir::ScatterOp>(op))
                  : insertInto(whole, cast<tensor::InsertSliceOp>(op));
    outer.replaceAllUsesWith(whole);
    outer.erase();
    for (Operation *op : updates)
      op->erase();
    eraseUnused(value);
  }

private:
  static void eraseUnused(Value view) {
    Operation *op = view.getDefiningOp();
    while (isa_and_nonnull<tensor::ExtractSliceOp, tensor::CollapseShapeOp,
                           tensor::ExpandShapeOp>(op) &&
           op->use_empty()) {
      Operation *source = op->getOperand(0).getDefiningOp();
      op->erase();
      op = source;
    }
  }

  /// Whether the value is what lies where `outer` writes, before it does.
  bool isPart(Value value) {
    auto part = beforeUnitSizes(value).getDefiningOp<tensor::ExtractSliceOp>();
    return part && part.getSource() == outer.getDest() &&
           value.getType() == outer.getSourceType() &&
           part.isSameAs(outer, [](OpFoldResult a, OpFoldResult b) {
             return isEqualConstantIntOrValue(a, b);
           });
  }

  /// Where position `at` of the part's dimension `dim` lies in the whole.
  OpFoldResult placeOf(unsigned dim, OpFoldResult at) {
    int64_t whole = dims[dim];
    Location loc = outer.getLoc();
    return addSizes(builder, loc, outer.getMixedOffsets()[whole],
                    mulSizes(builder, loc, at, outer.getMixedStrides()[whole]));
  }

  Value insertInto(Value whole, tensor::InsertSliceOp op) {
    SmallVector<OpFoldResult> offsets = outer.getMixedOffsets();
    SmallVector<OpFoldResult> strides = outer.getMixedStrides();
    SmallVector<OpFoldResult> sizes(offsets.size(), builder.getIndexAttr(1));
    for (auto [dim, to] : llvm::enumerate(dims)) {
      offsets[to] = placeOf(dim, op.getMixedOffsets()[dim]);
      sizes[to] = op.getMixedSizes()[dim];
      strides[to] = mulSizes(builder, outer.getLoc(), strides[to],
                             op.getMixedStrides()[dim]);
    }
    return builder.create<tensor::InsertSliceOp>(
        op.getLoc(), op.getSource(), whole, offsets, sizes, strides);
  }

  Value scatterInto(Value whole, ir::ScatterOp op) {
    OperationState state(op.getLoc(), ir::ScatterOp::getOperationName());
    state.addOperands({whole, op.getUpdates()});
    state.addTypes(whole.getType());
    state.addAttributes(op->getAttrs());
    state.addRegion();
    auto made = cast<ir::ScatterOp>(builder.create(state));
    made.getBody().takeBody(op.getBody());
    Operation *yield = made.getBody().front().getTerminator();
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(yield);
    SmallVector<Value> yielded;
    for (OpFoldResult offset : outer.getMixedOffsets())
      yielded.push_back(asIndex(builder, op.getLoc(), offset));
    for (auto [dim, to] : llvm::enumerate(dims))
      yielded[to] =
          asIndex(builder, op.getLoc(), placeOf(dim, yield->getOperand(dim)));
    yielded.push_back(yield->getOperands().back());
    yield->setOperands(yielded);
    return made.getResult();
  }

  tensor::InsertSliceOp outer;
  ir::ScopeKeeper keeper;
  OpBuilder builder;
  SmallVector<int64_t> dims; ///< of the whole, for each dimension of the part
};

LogicalResult composeUpdates(func::FuncOp main) {
  SmallVector<tensor::InsertSliceOp> inserts;
  main.walk([&](tensor::InsertSliceOp op) { inserts.push_back(op); });
  // A part of a part comes before its whole.
  for (tensor::InsertSliceOp op : inserts)
    UpdatedPart(op).compose();
  return success();
}

} // namespace
} // namespace importer

std::unique_ptr<Pass> createComposeUpdatesPass() {
  return ir::makePass<func::FuncOp, arith::ArithDialect, tensor::TensorDialect>(
      "anabranch-compose-updates",
      "makes updates of a tensor's parts updates of the tensor",
      importer::composeUpdates);
}

} // namespace anabranch
