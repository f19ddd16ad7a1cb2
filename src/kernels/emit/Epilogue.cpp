//===- Epilogue.cpp - what happens to a kernel's product ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/Epilogue.h"

#include "analysis/AccessMap.h"
#include "analysis/ReshapeIndex.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

SmallVector<Lanes> Epilogue::indexOf(Evaluator &evaluator,
                                     ArrayRef<Lanes> product) const {
  LaneBuilder &lanes = evaluator.lanes;
  KernelFunction &function = evaluator.function;
  SmallVector<Lanes> index(product);
  for (OpOperand *use : path) {
    Operation *op = use->getOwner();
    SmallVector<Lanes> next;
    if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
      SmallVector<Lanes> loops(generic.getNumLoops(), lanes.indexLanes(0));
      AffineMap input = generic.getMatchingIndexingMap(use);
      for (auto [expr, position] : llvm::zip(input.getResults(), index))
        if (auto dim = dyn_cast<AffineDimExpr>(expr))
          loops[dim.getPosition()] = position;
      next = evaluator.apply(generic.getIndexingMapsArray().back(), loops);
    } else if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      next.resize(expand.getResultType().getRank(), lanes.indexLanes(0));
      auto divide = [&](Lanes position, int64_t part) {
        return lanes.divRem(position, function.dim(expand.getResult(), part));
      };
      for (auto [group, position] :
           llvm::zip(expand.getReassociationIndices(), index))
        analysis::splitIndex<Lanes>(group, expand.getResultType().getShape(),
                                    position, next, divide);
    } else if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      auto step = [&](Lanes position, int64_t part) {
        Lanes size = Lanes::uniform(function.dim(collapse.getSrc(), part));
        return lanes.add(lanes.mul(position, size), index[part]);
      };
      for (const ReassociationIndices &group :
           collapse.getReassociationIndices())
        next.push_back(analysis::joinIndex(group, lanes.indexLanes(0), step));
    } else if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
      llvm::SmallBitVector dropped = slice.getDroppedDims();
      for (auto [dim, position] : llvm::enumerate(index))
        if (!dropped.test(dim))
          next.push_back(position);
    } else {
      next = index;
    }
    index = next;
  }
  return index;
}

void Epilogue::emit(Evaluator &evaluator, ArrayRef<Lanes> product) const {
  SmallVector<Lanes> index = indexOf(evaluator, product);
  Lanes value = evaluator.evaluate(written.value, index);
  store(evaluator.lanes,
        destinationBuffer(evaluator.function, written.destination), index,
        value);
}

namespace {

/// Whether the slice has all elements of its source, without some dimensions of
/// size one. Fusion leaves no other slice after a product.
bool isWhole(tensor::ExtractSliceOp slice) {
  return slice.getSourceType().hasStaticShape() &&
         slice.getStaticSizes() == slice.getSourceType().getShape();
}

/// Whether each point of the generic reads another element of the operand.
/// Loops of one iteration do not count.
bool readsEachOnce(linalg::GenericOp generic, OpOperand &operand) {
  AffineMap map = generic.getMatchingIndexingMap(&operand);
  if (map.isPermutation())
    return true;
  ArrayRef<int64_t> shape =
      cast<RankedTensorType>(operand.get().getType()).getShape();
  llvm::SmallBitVector left(generic.getNumLoops(), true);
  for (auto [size, expr] : llvm::zip(shape, map.getResults())) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (dim ? !left.test(dim.getPosition()) : size != 1)
      return false;
    if (dim)
      left.reset(dim.getPosition());
  }
  SmallVector<int64_t> ranges = generic.getStaticLoopRanges();
  return llvm::all_of(left.set_bits(),
                      [&](unsigned loop) { return ranges[loop] == 1; });
}

/// The path from the product to `value`, through operations that have one
/// element for each element of the product.
bool findPath(Value product, Value value, SmallVectorImpl<OpOperand *> &path) {
  if (value == product) {
    std::reverse(path.begin(), path.end());
    return true;
  }
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  auto generic = dyn_cast<linalg::GenericOp>(op);
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
  if (slice ? !isWhole(slice)
            : !isa<linalg::GenericOp, tensor::ExpandShapeOp,
                   tensor::CollapseShapeOp, tensor::CastOp>(op))
    return false;
  if (generic && generic.getNumReductionLoops())
    return false;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    if (generic && !readsEachOnce(generic, operand))
      continue;
    path.push_back(&operand);
    if (findPath(product, operand.get(), path))
      return true;
    path.pop_back();
  }
  return false;
}

/// True if the value reads the product only at the index that belongs to its
/// own element.
bool readsProductOnce(Value product, Value value) {
  int64_t rank = cast<RankedTensorType>(value.getType()).getRank();
  auto isProduct = [&](Value leaf) { return leaf == product; };
  analysis::ReadCollector collector(value.getContext(), rank, isProduct);
  collector.visit(value, collector.identity());
  const analysis::Read *first = nullptr;
  analysis::Reads reads = collector.take();
  for (const analysis::Read &read : reads.reads) {
    if (read.tensor != product)
      continue;
    if (!first) {
      first = &read;
      continue;
    }
    for (auto [a, b] : llvm::zip(first->index, read.index))
      if (!a.expr || a.expr != b.expr)
        return false;
  }
  return first != nullptr;
}

} // namespace

std::optional<SmallVector<Epilogue, 1>> findEpilogues(func::FuncOp source,
                                                      Value product) {
  SmallVector<Epilogue, 1> epilogues;
  for (unsigned i = 0; i < source.getNumResults(); ++i)
    for (Written &written : findWritten(source, i)) {
      Epilogue epilogue{written, {}};
      if (!findPath(product, written.value, epilogue.path) ||
          !readsProductOnce(product, written.value))
        return std::nullopt;
      epilogues.push_back(std::move(epilogue));
    }
  return epilogues;
}

} // namespace kernels
} // namespace anabranch
