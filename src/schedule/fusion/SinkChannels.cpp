//===- SinkChannels.cpp - channels stay last between convolutions ---------===//
// SPDX-License-Identifier: Apache-2.0
//
//   %0 = contraction -> NxHxWxC              %0 = contraction -> NxHxWxC
//   %1 = view %0 -> NxCxHxW {second}     ->  %2 = relu %0 -> NxHxWxC
//   %2 = relu %1 -> NxCxHxW                  %4 = contraction %2
//   %3 = view %2 -> NxHxWxC {last}
//   %4 = contraction %3
//
// A convolution computes with its channels last, between two views. The view
// after a convolution moves after the operator that reads it: pointwise work,
// slices, paddings and concatenations. A reduction reads the view's operand
// instead. Where the view meets the view before another convolution, both
// vanish. A view that is left before a convolution is stored, once for all of
// its readers.

#include "ir/Layout.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "schedule/fusion/Generics.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/fusion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace {

class ChannelSinker {
public:
  explicit ChannelSinker(func::FuncOp main) : rewriter(main.getContext()) {}

  void run(Operation *op) {
    ir::ScopeKeeper keeper(op);
    rewriter.setListener(&keeper);
    rewriter.setInsertionPoint(op);
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      if (ir::channelsOf(op) == ir::Channels::Last)
        meet(generic);
      else if (generic.getNumReductionLoops() != 0)
        reduceSourcesOfViews(generic);
      else if (!ir::channelsOf(op) && !ir::isMarkedWindows(op))
        sinkThroughGeneric(generic);
    } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
      sinkThroughSlice(slice);
    } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
      sinkThroughInsert(insert);
    }
    rewriter.setListener(nullptr);
  }

private:
  IRRewriter rewriter;

  /// The operand of a view that moved the channels to the second place, which
  /// has them last. Null for other values.
  static Value channelsLastSource(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || ir::channelsOf(op) != ir::Channels::Second)
      return Value();
    return op->getOperand(0);
  }

  static int64_t rankOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getRank();
  }

  template <typename T> static SmallVector<T> channelsLast(ArrayRef<T> parts) {
    SmallVector<T> moved = {parts[0]};
    llvm::append_range(moved, parts.drop_front(2));
    moved.push_back(parts[1]);
    return moved;
  }

  /// A marked view of the tensor.
  Value view(Value tensor, ir::Channels channels) {
    Location loc = tensor.getLoc();
    SmallVector<OpFoldResult> sizes =
        tensor::getMixedSizes(rewriter, loc, tensor);
    unsigned rank = sizes.size();
    SmallVector<unsigned> identity = llvm::to_vector(llvm::seq(0u, rank));
    // The generic's loops are the dimensions of its result.
    SmallVector<unsigned> read = identity;
    if (channels == ir::Channels::Last) {
      sizes = channelsLast<OpFoldResult>(sizes);
      read.assign({0, rank - 1});
      llvm::append_range(read, llvm::seq<unsigned>(1, rank - 1));
    } else {
      read = channelsLast<unsigned>(identity);
      SmallVector<OpFoldResult> second = {sizes[0], sizes.back()};
      second.append(sizes.begin() + 1, sizes.end() - 1);
      sizes = second;
    }
    linalg::GenericOp generic =
        schedule::permuted(rewriter, tensor, read, sizes);
    ir::markChannels(generic, channels);
    return generic.getResult(0);
  }

  /// The tensor with its channels last: the operand of a view that moved them,
  /// or else a new view that is stored.
  Value asLast(Value tensor) {
    if (Value source = channelsLastSource(tensor))
      return source;
    Value moved = view(tensor, ir::Channels::Last);
    ir::markStored(moved.getDefiningOp());
    return moved;
  }

  /// Handles a view before a convolution: it vanishes after a view that moved
  /// the channels, else it is stored.
  void meet(linalg::GenericOp op) {
    if (Value source = channelsLastSource(op->getOperand(0)))
      rewriter.replaceOp(op, source);
    else
      ir::markStored(op);
  }

  /// Whether all results have one shape, and each loop is a dimension of it.
  static bool isPointwise(linalg::GenericOp op) {
    return op.getNumReductionLoops() == 0 &&
           llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &init) {
             return op.getMatchingIndexingMap(&init).isIdentity() &&
                    !op.payloadUsesValueFromOperand(&init);
           });
  }

  /// A reduction reads the view's operand: its loops have no order in memory.
  void reduceSourcesOfViews(linalg::GenericOp op) {
    if (linalg::isaContractionOpInterface(op))
      return;
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    for (OpOperand *input : op.getDpsInputOperands()) {
      Value source = channelsLastSource(input->get());
      if (!source)
        continue;
      AffineMap &map = maps[input->getOperandNumber()];
      map = AffineMap::get(map.getNumDims(), map.getNumSymbols(),
                           channelsLast<AffineExpr>(map.getResults()),
                           op.getContext());
      rewriter.modifyOpInPlace(op, [&] {
        input->set(source);
        op.setIndexingMapsAttr(rewriter.getAffineMapArrayAttr(maps));
      });
    }
  }

  void sinkThroughGeneric(linalg::GenericOp op) {
    unsigned rank = op.getNumLoops();
    auto reads = [&](OpOperand *input) {
      return channelsLastSource(input->get()) &&
             op.getMatchingIndexingMap(input).isIdentity();
    };
    if (rank < 3 || !isPointwise(op) ||
        schedule::classify(op) == schedule::OpKind::Cloned ||
        !llvm::any_of(op.getDpsInputOperands(), reads))
      return;
    SmallVector<unsigned> last =
        channelsLast<unsigned>(llvm::to_vector(llvm::seq(0u, rank)));
    AffineMap moved =
        AffineMap::getMultiDimMapWithTargets(rank, last, op.getContext());
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    SmallVector<Value> inputs, inits;
    SmallVector<Type> types;
    for (auto [input, map] : llvm::zip(op.getDpsInputOperands(), maps)) {
      Value value = input->get();
      bool isWhole = map.isIdentity();
      inputs.push_back(isWhole ? asLast(value) : value);
      if (isWhole)
        map = moved;
    }
    for (size_t i = inputs.size(); i < maps.size(); ++i) {
      maps[i] = moved;
      Value init = op.getDpsInits()[i - inputs.size()];
      SmallVector<OpFoldResult> sizes = channelsLast<OpFoldResult>(
          tensor::getMixedSizes(rewriter, op.getLoc(), init));
      inits.push_back(rewriter.create<tensor::EmptyOp>(
          op.getLoc(), sizes, getElementTypeOrSelf(init.getType())));
      types.push_back(inits.back().getType());
    }
    auto fresh = rewriter.create<linalg::GenericOp>(
        op.getLoc(), types, inputs, inits, maps, op.getIteratorTypesArray());
    rewriter.inlineRegionBefore(op.getRegion(), fresh.getRegion(),
                                fresh.getRegion().begin());
    ir::copyOrder(op, fresh);
    FailureOr<linalg::GenericOp> ordered =
        linalg::interchangeGenericOp(rewriter, fresh, last);
    if (succeeded(ordered))
      fresh = *ordered;
    finish(op, fresh->getResults());
  }

  /// Replaces an operator by `results`, seen through views with the channels
  /// second.
  void finish(Operation *op, ValueRange results) {
    rewriter.setInsertionPointAfterValue(results.front());
    SmallVector<Value> views;
    for (Value result : results)
      views.push_back(view(result, ir::Channels::Second));
    rewriter.replaceOp(op, views);
  }

  void sinkThroughSlice(tensor::ExtractSliceOp op) {
    Value source = channelsLastSource(op.getSource());
    if (!source || rankOf(op.getResult()) != rankOf(source))
      return;
    Value slice = rewriter.create<tensor::ExtractSliceOp>(
        op.getLoc(), source, channelsLast<OpFoldResult>(op.getMixedOffsets()),
        channelsLast<OpFoldResult>(op.getMixedSizes()),
        channelsLast<OpFoldResult>(op.getMixedStrides()));
    finish(op, slice);
  }

  /// The tensor that an insertion writes into, with its channels last: the
  /// operand of a view, a fill or an empty tensor. Null for other tensors.
  Value destinationLast(Value dest) {
    if (Value source = channelsLastSource(dest))
      return source;
    Operation *op = dest.getDefiningOp();
    auto fill = dyn_cast_or_null<linalg::FillOp>(op);
    Value empty = fill ? fill.getOutputs()[0] : dest;
    if (!empty.getDefiningOp<tensor::EmptyOp>())
      return Value();
    Location loc = dest.getLoc();
    SmallVector<OpFoldResult> sizes =
        channelsLast<OpFoldResult>(tensor::getMixedSizes(rewriter, loc, empty));
    Value fresh = rewriter.create<tensor::EmptyOp>(
        loc, sizes, getElementTypeOrSelf(dest.getType()));
    if (!fill)
      return fresh;
    return rewriter.create<linalg::FillOp>(loc, fill.getInputs()[0], fresh)
        .getResult(0);
  }

  void sinkThroughInsert(tensor::InsertSliceOp op) {
    if (rankOf(op.getSource()) != rankOf(op.getDest()) ||
        rankOf(op.getDest()) < 3 ||
        (!channelsLastSource(op.getSource()) &&
         !channelsLastSource(op.getDest())))
      return;
    Value dest = destinationLast(op.getDest());
    if (!dest)
      return;
    Value insert = rewriter.create<tensor::InsertSliceOp>(
        op.getLoc(), asLast(op.getSource()), dest,
        channelsLast<OpFoldResult>(op.getMixedOffsets()),
        channelsLast<OpFoldResult>(op.getMixedSizes()),
        channelsLast<OpFoldResult>(op.getMixedStrides()));
    finish(op, insert);
  }
};

LogicalResult sinkChannels(func::FuncOp main) {
  ChannelSinker sinker(main);
  for (Operation &op : llvm::make_early_inc_range(main.getBody().front()))
    sinker.run(&op);
  return success();
}

} // namespace

std::unique_ptr<Pass> createSinkChannelsPass() {
  return ir::makePass<func::FuncOp, linalg::LinalgDialect,
                      tensor::TensorDialect>(
      "anabranch-sink-channels", "keeps channels last between convolutions",
      sinkChannels);
}

} // namespace anabranch
