//===- SplitReductions.cpp - large reductions to few points ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
//   %r = sum over h, w of %x[h, w, c]        %p = sum over w of %x[h, w, c]
//                                      ->    %r = sum over h of %p[h, c]
//
// A kernel gives whole sums to its tiles. Where there are few, as for the
// statistics of an image of 32 channels, most workers would have nothing to do.
// The choice depends on sizes only, so the number of workers does not change
// the order of a sum.
//
//===----------------------------------------------------------------------===//

#include "ir/PassBase.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/fusion/Passes.h"

#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace {

/// A reduction of fewer points takes less time than a second kernel.
constexpr int64_t leastPoints = 64 * 1024;
/// With so many tiles, workers share them well.
constexpr int64_t enoughTiles = 4;
/// Lanes that a tile has at least.
constexpr int64_t lanesOfTile = 64;
/// Partial results are made from at least so many points each.
constexpr int64_t pointsOfPartial = 64;

/// A reduction by one operation, whose result begins at its neutral element.
struct Reduction {
  linalg::GenericOp op;
  Operation *combiner;
  linalg::FillOp start;
  SmallVector<int64_t> sizes;
  /// The loops in the order of an operand's dimensions.
  SmallVector<unsigned> order;

  static std::optional<Reduction> of(linalg::GenericOp op);
  bool isReduced(unsigned loop) const {
    linalg::GenericOp generic = op;
    return generic.getIteratorTypesArray()[loop] ==
           utils::IteratorType::reduction;
  }
  int64_t points() const;
  int64_t tiles() const;
  /// The outermost loop whose steps give enough tiles; none if there is none.
  std::optional<unsigned> loopToShare() const;
};

std::optional<Reduction> Reduction::of(linalg::GenericOp op) {
  if (!op || schedule::classify(op) != schedule::OpKind::Reduction ||
      op.getNumResults() != 1 || op.hasIndexSemantics())
    return std::nullopt;
  SmallVector<Operation *> combiners;
  if (!matchReduction(op.getRegionOutputArgs(), 0, combiners) ||
      combiners.size() != 1)
    return std::nullopt;
  auto start = op.getDpsInits()[0].getDefiningOp<linalg::FillOp>();
  auto neutral = arith::getNeutralElement(combiners.front());
  Attribute first;
  if (!start || !neutral ||
      !matchPattern(start.getInputs()[0], m_Constant(&first)) ||
      first != *neutral)
    return std::nullopt;
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto isPlain = [](AffineMap map) { return map.isProjectedPermutation(); };
  auto whole =
      llvm::find_if(maps, [](AffineMap map) { return map.isPermutation(); });
  if (llvm::any_of(sizes, ShapedType::isDynamic) ||
      !llvm::all_of(maps, isPlain) || whole == maps.end())
    return std::nullopt;
  SmallVector<unsigned> order;
  for (AffineExpr expr : whole->getResults())
    order.push_back(cast<AffineDimExpr>(expr).getPosition());
  return Reduction{op, combiners.front(), start, sizes, order};
}

int64_t Reduction::points() const {
  int64_t product = 1;
  for (int64_t size : sizes)
    product *= size;
  return product;
}

/// Lanes run along the operand's last dimension. If it is reduced, each result
/// is a tile.
int64_t Reduction::tiles() const {
  int64_t results = 1;
  for (int64_t size :
       cast<RankedTensorType>(op->getResultTypes()[0]).getShape())
    results *= size;
  return isReduced(order.back()) ? results : results / lanesOfTile;
}

std::optional<unsigned> Reduction::loopToShare() const {
  for (unsigned loop : ArrayRef(order).drop_back()) {
    int64_t others = points() / sizes[loop];
    if (isReduced(loop) && sizes[loop] >= enoughTiles &&
        others >= pointsOfPartial &&
        sizes[loop] * tiles() * pointsOfPartial <= points())
      return loop;
  }
  return std::nullopt;
}

/// The results of each step of the loop, which is the first dimension.
Value partialResults(OpBuilder &b, Reduction &reduction, unsigned loop) {
  linalg::GenericOp op = reduction.op;
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op->getResultTypes()[0]);
  SmallVector<int64_t> shape = {reduction.sizes[loop]};
  llvm::append_range(shape, type.getShape());
  Value empty = b.create<tensor::EmptyOp>(loc, shape, type.getElementType());
  auto start =
      b.create<linalg::FillOp>(loc, reduction.start.getInputs(), empty);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  maps.back() =
      maps.back().insertResult(getAffineDimExpr(loop, b.getContext()), 0);
  SmallVector<utils::IteratorType> loops = op.getIteratorTypesArray();
  loops[loop] = utils::IteratorType::parallel;
  auto partial = b.create<linalg::GenericOp>(
      loc, TypeRange(start.getResult(0).getType()), op.getDpsInputs(),
      start.getResults(), maps, loops);
  IRMapping mapping;
  op.getRegion().cloneInto(&partial.getRegion(), mapping);
  return partial.getResult(0);
}

/// Combines the partial results, in their order.
Value wholeResult(OpBuilder &b, Reduction &reduction, Value partial) {
  linalg::GenericOp op = reduction.op;
  int64_t rank = cast<RankedTensorType>(partial.getType()).getRank();
  SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
  loops[0] = utils::IteratorType::reduction;
  AffineMap all = b.getMultiDimIdentityMap(rank);
  auto whole = b.create<linalg::GenericOp>(
      op.getLoc(), op->getResultTypes(), partial, op.getDpsInits(),
      ArrayRef<AffineMap>{all, all.dropResult(0)}, loops,
      [&](OpBuilder &inner, Location loc, ValueRange elements) {
        Operation *combined = inner.clone(*reduction.combiner);
        combined->setOperands({elements[1], elements[0]});
        inner.create<linalg::YieldOp>(loc, combined->getResults());
      });
  return whole.getResult(0);
}

LogicalResult splitReductions(func::FuncOp main) {
  SmallVector<linalg::GenericOp> candidates(
      main.getBody().front().getOps<linalg::GenericOp>());
  for (linalg::GenericOp op : candidates) {
    auto reduction = Reduction::of(op);
    if (!reduction || reduction->points() < leastPoints ||
        reduction->tiles() >= enoughTiles)
      continue;
    auto loop = reduction->loopToShare();
    if (!loop)
      continue;
    OpBuilder b(op);
    Value partial = partialResults(b, *reduction, *loop);
    partial.getDefiningOp()->setDiscardableAttrs(
        op->getDiscardableAttrDictionary());
    Value whole = wholeResult(b, *reduction, partial);
    whole.getDefiningOp()->setDiscardableAttrs(
        op->getDiscardableAttrDictionary());
    op.getResult(0).replaceAllUsesWith(whole);
    op.erase();
  }
  return success();
}

} // namespace

std::unique_ptr<Pass> createSplitReductionsPass() {
  return ir::makePass<func::FuncOp, linalg::LinalgDialect,
                      tensor::TensorDialect>(
      "anabranch-split-reductions",
      "splits large reductions to few points among workers", splitReductions);
}

} // namespace anabranch
