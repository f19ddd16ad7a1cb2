//===- SplitReductions.cpp - large reductions to few points ---------------===//
// SPDX-License-Identifier: Apache-2.0
//
//   %r = sum over h, w of %x[h, w, c]        %p = sum over w of %x[h, w, c]
//                                      ->    %r = sum over h of %p[h, c]
//
// A kernel gives whole sums to its tiles. Where there are few, as for the
// statistics of an image of 32 channels, most workers would have nothing to do.
// The choice depends on sizes only, so the number of workers does not change
// the order of a sum. If no loop has suitable steps, a loop is divided:
//
//   %r = sum over m of %x[m, n]          %y = expand_shape %x -> [8, m / 8, n]
//                                    ->  %p = sum over i of %y[j, i, n]
//                                        %r = sum over j of %p[j, n]

#include "ir/PassBase.h"
#include "machine/limits/MachineRates.h"
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
/// The kernel reads a tensor of more bytes row by row
/// (kernels/nests/RowOrder.h). A tile then has a page of floats, or a whole
/// row.
constexpr int64_t bytesOfRows = machine::UsualCore::l2Bytes,
                  lanesOfRow = machine::pageBytes / sizeof(float);
/// Partial results are made from at least so many points each.
constexpr int64_t pointsOfPartial = 32;
/// How many parts a loop is divided into, the best number first.
constexpr int64_t partsOfLoop[] = {8,  16, 10, 12, 14, 15, 9,
                                   11, 13, 7,  6,  5,  4};

/// How a reduction is split: each part of a loop gets a partial result. A part
/// is a step if there are as many.
struct Split {
  unsigned loop;
  int64_t parts;
};

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
  int64_t results() const;
  int64_t tiles() const;
  /// Splits the outermost loop whose steps give enough tiles, else divides one;
  /// none if there is no such loop.
  std::optional<Split> split() const;
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

int64_t Reduction::results() const {
  return cast<RankedTensorType>(op->getResultTypes()[0]).getNumElements();
}

/// Lanes run along the operand's last dimension. If it is reduced, each result
/// is a tile.
int64_t Reduction::tiles() const {
  if (isReduced(order.back()))
    return results();
  int64_t bytes = 0;
  for (Value input : linalg::GenericOp(op).getDpsInputs()) {
    auto type = cast<RankedTensorType>(input.getType());
    bytes = std::max<int64_t>(bytes, type.getNumElements() *
                                         type.getElementTypeBitWidth() / 8);
  }
  if (bytes <= bytesOfRows)
    return results() / lanesOfTile;
  return results() / std::clamp(sizes[order.back()], lanesOfTile, lanesOfRow);
}

std::optional<Split> Reduction::split() const {
  auto isWorth = [&](int64_t parts) {
    return parts >= enoughTiles &&
           parts * results() * pointsOfPartial <= points();
  };
  for (unsigned loop : ArrayRef(order).drop_back())
    if (isReduced(loop) && isWorth(sizes[loop]))
      return Split{loop, sizes[loop]};
  for (unsigned loop : order)
    for (int64_t parts : partsOfLoop)
      if (isReduced(loop) && sizes[loop] % parts == 0 && isWorth(parts))
        return Split{loop, parts};
  return std::nullopt;
}

/// The operand with the dimension of the loop cut into parts, if it has one.
Value divided(OpBuilder &b, Location loc, Value operand, AffineMap map,
              const Split &split) {
  auto dim =
      map.getResultPosition(getAffineDimExpr(split.loop, map.getContext()));
  if (!dim)
    return operand;
  auto type = cast<RankedTensorType>(operand.getType());
  SmallVector<int64_t> shape;
  SmallVector<ReassociationIndices> groups;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    groups.push_back({static_cast<int64_t>(shape.size())});
    int64_t size = type.getDimSize(i);
    if (i == static_cast<int64_t>(*dim)) {
      shape.push_back(split.parts);
      groups.back().push_back(shape.size());
      size /= split.parts;
    }
    shape.push_back(size);
  }
  return b.create<tensor::ExpandShapeOp>(
      loc, RankedTensorType::get(shape, type.getElementType()), operand,
      groups);
}

/// The same reduction, of which a new loop, the last one, has the parts of a
/// loop.
Reduction divide(OpBuilder &b, Reduction reduction, const Split &split) {
  linalg::GenericOp op = reduction.op;
  unsigned added = op.getNumLoops();
  AffineExpr part = getAffineDimExpr(added, b.getContext());
  SmallVector<Value> inputs;
  SmallVector<AffineMap> maps;
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    AffineMap wide =
        AffineMap::get(added + 1, 0, map.getResults(), b.getContext());
    if (auto dim =
            map.getResultPosition(getAffineDimExpr(split.loop, b.getContext())))
      wide = wide.insertResult(part, *dim);
    maps.push_back(wide);
    if (op.isDpsInput(&operand))
      inputs.push_back(divided(b, op.getLoc(), operand.get(), map, split));
  }
  SmallVector<utils::IteratorType> loops = op.getIteratorTypesArray();
  loops.push_back(utils::IteratorType::reduction);
  auto made = b.create<linalg::GenericOp>(
      op.getLoc(), op->getResultTypes(), inputs, op.getDpsInits(), maps, loops);
  made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  IRMapping mapping;
  op.getRegion().cloneInto(&made.getRegion(), mapping);
  reduction.op = made;
  reduction.sizes[split.loop] /= split.parts;
  reduction.sizes.push_back(split.parts);
  return reduction;
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
    auto split = reduction->split();
    if (!split)
      continue;
    OpBuilder b(op);
    linalg::GenericOp divided;
    if (reduction->sizes[split->loop] != split->parts) {
      *reduction = divide(b, *reduction, *split);
      divided = reduction->op;
      split->loop = reduction->sizes.size() - 1;
    }
    Value partial = partialResults(b, *reduction, split->loop);
    partial.getDefiningOp()->setDiscardableAttrs(
        op->getDiscardableAttrDictionary());
    Value whole = wholeResult(b, *reduction, partial);
    whole.getDefiningOp()->setDiscardableAttrs(
        op->getDiscardableAttrDictionary());
    op.getResult(0).replaceAllUsesWith(whole);
    if (divided)
      divided.erase();
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
