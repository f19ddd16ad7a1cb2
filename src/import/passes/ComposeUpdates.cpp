//===- ComposeUpdates.cpp - updates of parts become updates of wholes -----===//
// SPDX-License-Identifier: Apache-2.0
//
//   %p = extract_slice %c[1, 0] [1, 8]
//   %u = insert_slice %x into %p[2] [4]         %r = insert_slice %x into
//   %r = insert_slice %u into %c[1, 0] [1, 8] ->                %c[1, 2] [1, 4]
//
// The same holds for a scatter into %p, and for an update of %p under another
// shape, as a list of rows. So what writes into a view of a view,
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

bool isReshape(Operation *op) {
  return isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op);
}

Value beforeReshapes(Value value) {
  while (isReshape(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
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

/// A part of a tensor that `outer` writes back after updates of it, maybe under
/// another shape.
class UpdatedPart {
public:
  explicit UpdatedPart(tensor::InsertSliceOp outer)
      : outer(outer), keeper(outer), builder(outer, &keeper),
        offsets(outer.getMixedOffsets()), strides(outer.getMixedStrides()) {
    llvm::SmallBitVector dropped = outer.getDroppedDims();
    for (int64_t dim = 0; dim < outer.getDestType().getRank(); ++dim)
      if (!dropped.test(dim))
        dims.push_back(dim);
  }

  /// Makes the updates those of the whole tensor.
  void compose() {
    Value value = updatedValue();
    if (value != outer.getSource() && !takeShape(value))
      return;
    Type type = value.getType();
    SmallVector<Operation *> updates;
    for (; !isPart(value, type); value = updatedBy(updates.back())) {
      Operation *op = value.getDefiningOp();
      if (!updatedBy(op) || !value.hasOneUse() ||
          ir::scopeOf(op) != ir::scopeOf(outer))
        return;
      updates.push_back(op);
    }
    Value whole = reshaped(outer.getDest(), shape);
    for (Operation *op : llvm::reverse(updates))
      whole = isa<ir::ScatterOp>(op)
                  ? scatterInto(whole, cast<ir::ScatterOp>(op))
                  : insertInto(whole, cast<tensor::InsertSliceOp>(op));
    Value source = outer.getSource();
    outer.replaceAllUsesWith(reshaped(whole, outer.getDestType().getShape()));
    outer.erase();
    eraseUnused(source);
    for (Operation *op : updates)
      op->erase();
    eraseUnused(value);
  }

private:
  static void eraseUnused(Value view) {
    Operation *op = view.getDefiningOp();
    while (op && op->use_empty() &&
           (isReshape(op) || isa<tensor::ExtractSliceOp>(op))) {
      Operation *source = op->getOperand(0).getDefiningOp();
      op->erase();
      op = source;
    }
  }

  /// The value that is written back, in the shape in which it was updated.
  Value updatedValue() {
    Value value = outer.getSource();
    while (isReshape(value.getDefiningOp()) && value.hasOneUse())
      value = value.getDefiningOp()->getOperand(0);
    return updatedBy(value.getDefiningOp()) ? value : outer.getSource();
  }

  /// Gives the part the shape of `value`. False unless the part is whole in all
  /// dimensions behind some that it drops, so that the whole tensor has such a
  /// shape, too.
  bool takeShape(Value value) {
    RankedTensorType whole = outer.getDestType();
    auto part = cast<RankedTensorType>(value.getType());
    int64_t leading = whole.getRank() - static_cast<int64_t>(dims.size());
    if (!whole.hasStaticShape() || !part.hasStaticShape())
      return false;
    for (int64_t dim = leading; dim < whole.getRank(); ++dim)
      if (dims[dim - leading] != dim || !isConstantIntValue(offsets[dim], 0) ||
          outer.getStaticSizes()[dim] != whole.getDimSize(dim))
        return false;
    shape.assign(whole.getShape().begin(), whole.getShape().begin() + leading);
    shape.append(part.getShape().begin(), part.getShape().end());
    offsets.resize(leading);
    offsets.resize(shape.size(), builder.getIndexAttr(0));
    strides.resize(leading);
    strides.resize(shape.size(), builder.getIndexAttr(1));
    dims.clear();
    for (int64_t dim = leading; dim < static_cast<int64_t>(shape.size()); ++dim)
      dims.push_back(dim);
    return true;
  }

  /// The tensor in this shape; as it is if the shape is empty.
  Value reshaped(Value tensor, ArrayRef<int64_t> wanted) {
    if (shape.empty() || wanted.empty())
      return tensor;
    SmallVector<OpFoldResult> sizes;
    for (int64_t size : wanted)
      sizes.push_back(builder.getIndexAttr(size));
    return reshape(builder, outer.getLoc(), tensor, sizes);
  }

  /// Whether the value is what lies where `outer` writes, before it does.
  bool isPart(Value value, Type type) {
    auto part = beforeReshapes(value).getDefiningOp<tensor::ExtractSliceOp>();
    return part && part.getSource() == outer.getDest() &&
           value.getType() == type &&
           part.isSameAs(outer, [](OpFoldResult a, OpFoldResult b) {
             return isEqualConstantIntOrValue(a, b);
           });
  }

  /// Where position `at` of the part's dimension `dim` lies in the whole.
  OpFoldResult placeOf(unsigned dim, OpFoldResult at) {
    Location loc = outer.getLoc();
    return addSizes(builder, loc, offsets[dims[dim]],
                    mulSizes(builder, loc, at, strides[dims[dim]]));
  }

  Value insertInto(Value whole, tensor::InsertSliceOp op) {
    SmallVector<OpFoldResult> starts(offsets), steps(strides);
    SmallVector<OpFoldResult> sizes(offsets.size(), builder.getIndexAttr(1));
    for (auto [dim, to] : llvm::enumerate(dims)) {
      starts[to] = placeOf(dim, op.getMixedOffsets()[dim]);
      sizes[to] = op.getMixedSizes()[dim];
      steps[to] = mulSizes(builder, outer.getLoc(), strides[to],
                           op.getMixedStrides()[dim]);
    }
    return builder.create<tensor::InsertSliceOp>(op.getLoc(), op.getSource(),
                                                 whole, starts, sizes, steps);
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
    for (OpFoldResult offset : offsets)
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
  /// Of the part, in the whole tensor under the shape of the updates.
  SmallVector<OpFoldResult> offsets, strides;
  SmallVector<int64_t> dims;  ///< of the whole, for each dimension of the part
  SmallVector<int64_t> shape; ///< of the whole; empty: as it is
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
