//===- Gather.cpp - operands that are parts of a larger tensor ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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

std::optional<Gather> gatherBehind(Value operand) {
  while (Value viewed = viewedBy(operand.getDefiningOp()))
    operand = viewed;
  auto generic = operand.getDefiningOp<linalg::GenericOp>();
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

std::optional<Gather> placedGather(linalg::GenericOp product,
                                   unsigned operand) {
  Value value = product->getOperand(operand);
  std::optional<Gather> gather = gatherBehind(value);
  if (!gather)
    return std::nullopt;
  SmallVector<AffineMap> maps = product.getIndexingMapsArray();
  ReadCollector collector(product.getContext(), product.getNumLoops(),
                          [&](Value leaf) { return leaf == gather->source; });
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

std::optional<Gather> gatherOfRows(Value operand) {
  std::optional<Gather> gather = gatherBehind(operand);
  auto type = cast<RankedTensorType>(operand.getType());
  if (!gather || type.getRank() == 0)
    return std::nullopt;
  unsigned column = type.getRank() - 1;
  ReadCollector collector(operand.getContext(), type.getRank(),
                          [&](Value leaf) { return leaf == gather->source; });
  collector.visit(operand, collector.identity());
  auto liesWhole = [&](ArrayRef<SymbolicIndex> index) {
    return !index.empty() && index.back().growth(column) == 1 &&
           llvm::all_of(index.drop_back(), [&](const SymbolicIndex &other) {
             return other.growth(column) == 0;
           });
  };
  Reads reads = collector.take();
  for (const Read &read : reads.reads)
    if (read.tensor == gather->source && !liesWhole(read.index))
      return std::nullopt;
  return gather;
}

} // namespace analysis
} // namespace anabranch
