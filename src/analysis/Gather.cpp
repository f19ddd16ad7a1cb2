//===- Gather.cpp - operands that are parts of a larger tensor ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "analysis/Gather.h"

#include "analysis/AccessMap.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace analysis {

Value viewedBy(Operation *op) {
  if (isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                      tensor::ExtractSliceOp, tensor::CastOp>(op))
    return op->getOperand(0);
  auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
  if (!generic || generic.getNumDpsInputs() != 1 ||
      generic.getNumReductionLoops() != 0)
    return Value();
  Block *body = generic.getBody();
  Operation *yield = body->getTerminator();
  bool yieldsInput =
      &body->front() == yield && yield->getOperand(0) == body->getArgument(0);
  return yieldsInput ? generic.getDpsInputOperand(0)->get() : Value();
}

/// The gather that makes this value itself, without views.
static std::optional<Gather> gatherMaking(Value value) {
  auto generic = value.getDefiningOp<linalg::GenericOp>();
  if (!generic || generic.getNumReductionLoops() != 0 ||
      generic.getNumResults() != 1)
    return std::nullopt;
  auto extract = generic.getBody()
                     ->getTerminator()
                     ->getOperand(0)
                     .getDefiningOp<tensor::ExtractOp>();
  if (!extract)
    return std::nullopt;
  return Gather{generic, extract.getTensor()};
}

std::optional<Gather> gatherThroughViews(Value operand) {
  while (Value viewed = viewedBy(operand.getDefiningOp()))
    operand = viewed;
  return gatherMaking(operand);
}

/// Whether the positions come from elements of other tensors alone. A position
/// that is computed from a loop's number changes with each step of that loop.
static bool areLoadedPositions(const Gather &gather) {
  auto yield = gather.op->getRegion(0).front().getTerminator();
  SmallVector<Operation *> work;
  auto follow = [&](Operation *op) {
    for (Value operand : op->getOperands())
      if (Operation *made = operand.getDefiningOp())
        if (made->getParentOp() == gather.op)
          work.push_back(made);
  };
  Operation *extract = yield->getOperand(0).getDefiningOp();
  for (Value index : cast<tensor::ExtractOp>(extract).getIndices())
    if (Operation *made = index.getDefiningOp();
        made && made->getParentOp() == gather.op && !isa<linalg::IndexOp>(made))
      work.push_back(made);
  while (!work.empty()) {
    Operation *op = work.pop_back_val();
    if (isa<linalg::IndexOp>(op))
      return false;
    follow(op);
  }
  return true;
}

/// The loops along which the positions stay the same for many steps. Along such
/// a loop no index of another tensor than the source changes from step to step.
static llvm::SmallBitVector steadyLoops(const Gather &gather,
                                        const Reads &reads, unsigned loops) {
  llvm::SmallBitVector steady(loops, areLoadedPositions(gather));
  for (const Read &read : reads.reads)
    for (const SymbolicIndex &index : read.index)
      for (unsigned loop = 0; read.tensor != gather.source && loop < loops;
           ++loop)
        if (index.growth(loop) != 0)
          steady.reset(loop);
  return steady;
}

/// Reductions and products have kernels of their own.
static bool isReduced(Value value) {
  auto generic = value.getDefiningOp<linalg::GenericOp>();
  return generic && generic.getNumReductionLoops() != 0;
}

std::optional<Gather> placedGather(linalg::GenericOp product,
                                   unsigned operand) {
  Value value = product->getOperand(operand);
  std::optional<Gather> gather = gatherThroughViews(value);
  if (!gather)
    return std::nullopt;
  SmallVector<AffineMap> maps = product.getIndexingMapsArray();
  ReadCollector collector(
      product.getContext(), product.getNumLoops(),
      [&](Value value) { return value == gather->source || isReduced(value); });
  collector.visit(value, collector.apply(maps[operand], collector.identity()));
  Reads reads = collector.take();
  gather->steady = steadyLoops(*gather, reads, product.getNumLoops());
  SmallVector<int64_t> sizes = product.getStaticLoopRanges();
  AffineMap other = maps[1 - operand];
  auto isPlaced = [&](const SymbolicIndex &index) {
    if (index.expr)
      return true;
    return llvm::all_of(index.loops.set_bits(), [&](unsigned loop) {
      bool isBatch =
          maps[2].isFunctionOfDim(loop) && other.isFunctionOfDim(loop);
      return isBatch || sizes[loop] == 1 || gather->steady.test(loop);
    });
  };
  for (const Read &read : reads.reads)
    if (read.tensor == gather->source && !llvm::all_of(read.index, isPlaced))
      return std::nullopt;
  return gather;
}

/// The gathers that a value is made of, found through views and pointwise
/// operators.
static SmallVector<Gather> gathersThroughPointwise(Value value) {
  SmallVector<Gather> gathers;
  SmallVector<Value> work{value};
  llvm::SmallDenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    if (Value viewed = viewedBy(next.getDefiningOp()))
      work.push_back(viewed);
    else if (auto gather = gatherMaking(next))
      gathers.push_back(*gather);
    else if (auto generic = next.getDefiningOp<linalg::GenericOp>();
             generic && generic.getNumReductionLoops() == 0)
      llvm::append_range(work, generic.getDpsInputs());
  }
  return gathers;
}

SmallVector<Gather> gathersOfRows(Value operand) {
  SmallVector<Gather> gathers = gathersThroughPointwise(operand);
  unsigned rank = cast<RankedTensorType>(operand.getType()).getRank();
  if (gathers.empty() || rank == 0)
    return {};
  auto isSource = [&](Value value) {
    return llvm::any_of(
        gathers, [&](const Gather &gather) { return gather.source == value; });
  };
  auto isLeaf = [&](Value value) {
    return isSource(value) || isReduced(value);
  };
  ReadCollector collector(operand.getContext(), rank, isLeaf);
  collector.visit(operand, collector.identity());
  unsigned column = rank - 1;
  auto liesWhole = [&](ArrayRef<SymbolicIndex> index) {
    return !index.empty() && index.back().growth(column) == 1 &&
           llvm::all_of(index.drop_back(), [&](const SymbolicIndex &other) {
             return other.growth(column) == 0;
           });
  };
  Reads reads = collector.take();
  llvm::SmallDenseSet<Value> across;
  for (const Read &read : reads.reads)
    if (isSource(read.tensor) && !liesWhole(read.index))
      across.insert(read.tensor);
  llvm::erase_if(gathers, [&](const Gather &gather) {
    return across.contains(gather.source);
  });
  return gathers;
}

} // namespace analysis
} // namespace anabranch
