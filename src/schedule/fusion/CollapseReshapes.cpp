//===- CollapseReshapes.cpp - reshapes move behind pointwise work ---------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
//   %0 = matmul -> 128x64                     %0 = matmul -> 128x64
//   %1 = expand_shape %0 -> 2x64x64    ->     %1 = generic %0 -> 128x64
//   %2 = generic %1 -> 2x64x64                %2 = expand_shape %1 -> 2x64x64
//
// A matrix product can then take the pointwise operators that follow it, and
// kernels have fewer loops. Runs before dispatch formation, which sees groups
// of operators with the same index.
//
//===----------------------------------------------------------------------===//

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

LogicalResult collapse(func::FuncOp main) {
  if (failed(dropUnitDims(main)))
    return failure();
  // Dimensions of symbolic size stay: the new shapes would need arithmetic that
  // the size table cannot always share.
  auto isStatic = [](Type type) {
    return cast<RankedTensorType>(type).hasStaticShape();
  };
  RewritePatternSet patterns(main.getContext());
  linalg::populateFoldReshapeOpsByCollapsingPatterns(
      patterns, [&](OpOperand *operand) {
        auto generic = dyn_cast<linalg::GenericOp>(operand->getOwner());
        return generic &&
               operand->get().getDefiningOp<tensor::ExpandShapeOp>() &&
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
      "moves reshapes behind the operators that read them", collapseReshapes);
}

} // namespace anabranch
