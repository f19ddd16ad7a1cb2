//===- CollapseReshapes.cpp - reshapes move after pointwise work ----------===//
// SPDX-License-Identifier: Apache-2.0
//
//   %0 = matmul -> 128x64                     %0 = matmul -> 128x64
//   %1 = expand_shape %0 -> 2x64x64    ->     %1 = generic %0 -> 128x64
//   %2 = generic %1 -> 2x64x64                %2 = expand_shape %1 -> 2x64x64
//
// A matrix product can then take the pointwise operators that follow it, and
// kernels have fewer loops. Runs before dispatch formation, which sees groups
// of operators with the same index. For the same reason a reshape that joins
// dimensions of a product, as of a convolution with groups, moves after them:
//
//   %0 = product -> 28x28x2x32                %0 = product -> 28x28x2x32
//   %1 = collapse_shape %0 -> 28x28x64   ->   %1 = generic %0 -> 28x28x2x32
//   %2 = generic %1 -> 28x28x64               %2 = collapse_shape -> 28x28x64

#include "ir/Layout.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/fusion/Passes.h"

#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Tensor/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace anabranch {
namespace {

/// Drops unit loops of a generic. MLIR's own set of patterns would also merge a
/// collapse_shape with the expand_shape before it. That loses symbolic output
/// sizes, and inverse pairs fold away without it.
struct DropUnitLoops : OpRewritePattern<linalg::GenericOp> {
  DropUnitLoops(MLIRContext *context, linalg::ControlDropUnitDims control)
      : OpRewritePattern(context), control(std::move(control)) {}

  LogicalResult matchAndRewrite(linalg::GenericOp op,
                                PatternRewriter &rewriter) const final {
    return linalg::dropUnitDims(rewriter, op, control);
  }

  linalg::ControlDropUnitDims control;
};

LogicalResult rewrite(func::FuncOp main, RewritePatternSet patterns) {
  ir::ScopeKeeper keeper;
  GreedyRewriteConfig config;
  config.listener = &keeper;
  config.enableRegionSimplification = GreedySimplifyRegionLevel::Disabled;
  return applyPatternsAndFoldGreedily(main, std::move(patterns), config);
}

/// Drops loops of one iteration and dimensions of size one, which hide that two
/// operators have the same index. Matrix products keep theirs: a product of one
/// row is still a matrix product.
LogicalResult dropUnitDims(func::FuncOp main) {
  linalg::ControlDropUnitDims control;
  control.controlFn = [](Operation *op) {
    SmallVector<unsigned> loops;
    auto generic = dyn_cast<linalg::GenericOp>(op);
    if (generic && schedule::classify(op) != schedule::OpKind::Contraction &&
        !ir::isMarkedWindows(op) && !ir::isMarkedStored(op))
      llvm::append_range(loops, llvm::seq<unsigned>(0, generic.getNumLoops()));
    return loops;
  };
  MLIRContext *context = main.getContext();
  RewritePatternSet patterns(context);
  patterns.add<DropUnitLoops>(context, control);
  linalg::FillOp::getCanonicalizationPatterns(patterns, context);
  tensor::EmptyOp::getCanonicalizationPatterns(patterns, context);
  tensor::populateFoldTensorEmptyPatterns(patterns);
  return rewrite(main, std::move(patterns));
}

bool isPointwise(linalg::GenericOp op) {
  return op && op.getNumReductionLoops() == 0 && op.getNumResults() == 1 &&
         !op.hasIndexSemantics() && !ir::isMarkedWindows(op) &&
         !ir::isMarkedStored(op) &&
         op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity();
}

/// Whether the reshape joins or splits dimensions of more than one element.
template <typename ReshapeOp>
bool joinsDims(ReshapeOp reshape, RankedTensorType longer) {
  return llvm::any_of(reshape.getReassociationIndices(),
                      [&](ArrayRef<int64_t> group) {
                        return llvm::count_if(group, [&](int64_t dim) {
                                 return longer.getDimSize(dim) != 1;
                               }) > 1;
                      });
}
bool joinsDims(tensor::CollapseShapeOp collapse) {
  return joinsDims(collapse, collapse.getSrcType());
}
bool splitsDims(tensor::ExpandShapeOp expand) {
  return joinsDims(expand, expand.getResultType());
}

/// The value before reshapes that only add or drop dimensions of one element.
Value beforeUnitReshapes(Value value) {
  while (true) {
    auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
    auto expand = value.getDefiningOp<tensor::ExpandShapeOp>();
    if (collapse && !joinsDims(collapse))
      value = collapse.getSrc();
    else if (expand && !splitsDims(expand))
      value = expand.getSrc();
    else
      return value;
  }
}

/// The matrix product that makes the value, found through pointwise operators
/// that read it at its own index, and through dimensions of one element. Null
/// if there is none.
linalg::GenericOp productThroughPointwise(Value value) {
  auto op = beforeUnitReshapes(value).getDefiningOp<linalg::GenericOp>();
  if (!op || schedule::classify(op) == schedule::OpKind::Contraction)
    return op;
  if (!isPointwise(op))
    return nullptr;
  for (OpOperand *input : op.getDpsInputOperands())
    if (op.getMatchingIndexingMap(input).isIdentity())
      if (linalg::GenericOp product = productThroughPointwise(input->get()))
        return product;
  return nullptr;
}

bool readsAtProduct(linalg::GenericOp op) {
  return llvm::any_of(op.getDpsInputOperands(), [&](OpOperand *input) {
    return op.getMatchingIndexingMap(input).isIdentity() &&
           productThroughPointwise(input->get());
  });
}

/// The product before a reshape that joins its dimensions, or null.
linalg::GenericOp productBeforeJoin(Value value) {
  auto collapse =
      beforeUnitReshapes(value).getDefiningOp<tensor::CollapseShapeOp>();
  return collapse ? productThroughPointwise(collapse.getSrc()) : nullptr;
}

/// Whether an operand needs the whole product, as the scales of
/// squeeze-and-excitation do. The kernel of the product cannot have the reader.
bool waitsFor(linalg::GenericOp product, linalg::GenericOp reader) {
  SmallVector<Operation *> work;
  llvm::SmallPtrSet<Operation *, 16> seen;
  auto follow = [&](Value operand) {
    Operation *maker = operand.getDefiningOp();
    if (maker && product->isBeforeInBlock(maker) && seen.insert(maker).second)
      work.push_back(maker);
    return maker == product;
  };
  for (OpOperand *input : reader.getDpsInputOperands())
    if (productBeforeJoin(input->get()) != product &&
        productThroughPointwise(input->get()) != product &&
        follow(input->get()))
      return true;
  while (!work.empty())
    if (llvm::any_of(work.pop_back_val()->getOperands(), follow))
      return true;
  return false;
}

bool isStatic(Type type) {
  return cast<RankedTensorType>(type).hasStaticShape();
}

/// Moves reshapes that join dimensions of a product after pointwise operators.
LogicalResult expandAfterProducts(func::FuncOp main) {
  RewritePatternSet patterns(main.getContext());
  linalg::populateFoldReshapeOpsByExpansionPatterns(
      patterns, [&](OpOperand *operand) {
        auto generic = dyn_cast<linalg::GenericOp>(operand->getOwner());
        if (!isPointwise(generic) ||
            !llvm::all_of(generic->getOperandTypes(), isStatic))
          return false;
        linalg::GenericOp product = productBeforeJoin(operand->get());
        return product && !waitsFor(product, generic);
      });
  return rewrite(main, std::move(patterns));
}

LogicalResult collapse(func::FuncOp main) {
  if (failed(dropUnitDims(main)) || failed(expandAfterProducts(main)))
    return failure();
  // Dimensions of symbolic size stay: the new shapes would need arithmetic that
  // the size table cannot always share.
  RewritePatternSet patterns(main.getContext());
  linalg::populateFoldReshapeOpsByCollapsingPatterns(
      patterns, [&](OpOperand *operand) {
        auto generic = dyn_cast<linalg::GenericOp>(operand->getOwner());
        auto expand = operand->get().getDefiningOp<tensor::ExpandShapeOp>();
        return generic && expand &&
               !(splitsDims(expand) && readsAtProduct(generic)) &&
               llvm::all_of(generic->getOperandTypes(), isStatic);
      });
  return rewrite(main, std::move(patterns));
}

/// Copies each result that folds to an argument. The caller's own buffer may
/// only leave as a result if the program returned that argument from the start.
void copyArguments(Operation *end, ArrayRef<Value> before) {
  OpBuilder builder(end);
  for (auto [operand, old] : llvm::zip(end->getOpOperands(), before)) {
    Value value = operand.get();
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !isa<BlockArgument>(value) || value == old)
      continue;
    Location loc = value.getLoc();
    Value init = builder.create<tensor::EmptyOp>(
        loc, tensor::getMixedSizes(builder, loc, value), type.getElementType());
    AffineMap map = builder.getMultiDimIdentityMap(type.getRank());
    SmallVector<utils::IteratorType> loops(type.getRank(),
                                           utils::IteratorType::parallel);
    auto copy = builder.create<linalg::GenericOp>(
        loc, TypeRange(type), value, init, ArrayRef<AffineMap>{map, map}, loops,
        [](OpBuilder &inner, Location at, ValueRange elements) {
          inner.create<linalg::YieldOp>(at, elements.front());
        });
    operand.set(copy.getResult(0));
  }
}

LogicalResult collapseReshapes(func::FuncOp main) {
  Operation *end = main.getBody().back().getTerminator();
  SmallVector<Value> before(end->getOperands());
  if (failed(collapse(main)))
    return failure();
  copyArguments(end, before);
  return success();
}

} // namespace

std::unique_ptr<Pass> createCollapseReshapesPass() {
  return ir::makePass<func::FuncOp, affine::AffineDialect,
                      linalg::LinalgDialect, tensor::TensorDialect>(
      "anabranch-collapse-reshapes",
      "moves reshapes after the operators that read them", collapseReshapes);
}

} // namespace anabranch
