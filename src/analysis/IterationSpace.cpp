//===- IterationSpace.cpp - an operator's loops and reads -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "analysis/IterationSpace.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

#include <functional>

using namespace mlir;

namespace anabranch {
namespace analysis {

SmallVector<Value> allOperands(Operation *op) {
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  SmallVector<Value> operands(op->getOperands());
  llvm::append_range(operands, captured);
  return operands;
}

//===----------------------------------------------------------------------===//
// Iteration spaces
//===----------------------------------------------------------------------===//

static SmallVector<int> countTo(int64_t end) {
  SmallVector<int> numbers;
  for (int64_t i = 0; i < end; ++i)
    numbers.push_back(i);
  return numbers;
}

/// One loop per dimension of the only result.
static IterationSpace loopsOfResult(RankedTensorType type) {
  IterationSpace loops;
  loops.sizes.assign(type.getShape().begin(), type.getShape().end());
  loops.reduces.assign(type.getRank(), false);
  loops.resultDims.push_back(countTo(type.getRank()));
  return loops;
}

IterationSpace spaceOf(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return op->getNumResults() == 1 &&
                   isa<RankedTensorType>(op->getResult(0).getType())
               ? loopsOfResult(
                     cast<RankedTensorType>(op->getResult(0).getType()))
               : IterationSpace();
  IterationSpace loops;
  llvm::append_range(loops.sizes, generic.getStaticLoopRanges());
  for (utils::IteratorType iterator : generic.getIteratorTypesArray())
    loops.reduces.push_back(iterator == utils::IteratorType::reduction);
  for (OpOperand &init : generic.getDpsInitsMutable()) {
    SmallVector<int> dims;
    for (AffineExpr expr : generic.getMatchingIndexingMap(&init).getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      dims.push_back(dim ? int(dim.getPosition()) : int(partOfDim));
    }
    loops.resultDims.push_back(std::move(dims));
  }
  return loops;
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

/// Turns "read at `dims`" of a view into "read at .." of its source.
static SmallVector<int> throughMap(AffineMap map, ArrayRef<int> loopDims,
                                   RankedTensorType source) {
  SmallVector<int> dims;
  for (auto [i, expr] : llvm::enumerate(map.getResults())) {
    if (source.getDimSize(i) == 1)
      dims.push_back(unitDim);
    else if (auto dim = dyn_cast<AffineDimExpr>(expr))
      dims.push_back(loopDims[dim.getPosition()]);
    else
      dims.push_back(partOfDim);
  }
  return dims;
}

static SmallVector<int> throughGeneric(linalg::GenericOp view, OpOperand &input,
                                       ArrayRef<int> dims) {
  AffineMap output = view.getMatchingIndexingMap(view.getDpsInitOperand(0));
  SmallVector<int> loopDims(view.getNumLoops(), partOfDim);
  for (auto [i, expr] : llvm::enumerate(output.getResults()))
    if (auto dim = dyn_cast<AffineDimExpr>(expr))
      loopDims[dim.getPosition()] = dims[i];
  return throughMap(view.getMatchingIndexingMap(&input), loopDims,
                    cast<RankedTensorType>(input.get().getType()));
}

static SmallVector<int> throughSlice(tensor::ExtractSliceOp slice,
                                     ArrayRef<int> dims) {
  RankedTensorType source = slice.getSourceType();
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  SmallVector<int> result;
  unsigned next = 0;
  for (int64_t i = 0; i < source.getRank(); ++i) {
    int here = dropped.test(i) ? int(partOfDim) : dims[next++];
    bool whole = !source.isDynamicDim(i) &&
                 slice.getStaticSizes()[i] == source.getDimSize(i);
    result.push_back(source.getDimSize(i) == 1 ? int(unitDim)
                     : whole                   ? here
                                               : int(partOfDim));
  }
  return result;
}

/// The only dimension of the group that is larger than one, or -1 if there are
/// several: the reshape then mixes dimensions.
static int onlyLargeDim(ArrayRef<int64_t> group, RankedTensorType type) {
  int found = unitDim;
  for (int64_t dim : group) {
    if (type.getDimSize(dim) == 1)
      continue;
    if (found != unitDim)
      return partOfDim;
    found = dim;
  }
  return found;
}

static SmallVector<int> throughExpand(tensor::ExpandShapeOp expand,
                                      ArrayRef<int> dims) {
  SmallVector<int> result;
  for (const ReassociationIndices &group : expand.getReassociationIndices()) {
    int large = onlyLargeDim(group, expand.getResultType());
    result.push_back(large < 0 ? large : dims[large]);
  }
  return result;
}

static SmallVector<int> throughCollapse(tensor::CollapseShapeOp collapse,
                                        ArrayRef<int> dims) {
  RankedTensorType source = collapse.getSrcType();
  SmallVector<int> result(source.getRank(), unitDim);
  for (auto [i, group] : llvm::enumerate(collapse.getReassociationIndices())) {
    int large = onlyLargeDim(group, source);
    for (int64_t dim : group)
      if (source.getDimSize(dim) != 1)
        result[dim] = large == partOfDim ? int(partOfDim) : dims[i];
  }
  return result;
}

namespace {
/// Follows the reads of an operator through cloned producers to values that are
/// stored.
struct ReadTracer {
  std::function<bool(Operation *)> isCloned;
  SmallVector<DimRead> reads;

  void trace(Value value, SmallVector<int> dims) {
    if (!isa<RankedTensorType>(value.getType()))
      return;
    Operation *op = value.getDefiningOp();
    if (!op || !isCloned(op)) {
      reads.push_back({value, std::move(dims)});
      return;
    }
    if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
      return trace(slice.getSource(), throughSlice(slice, dims));
    if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
      return trace(expand.getSrc(), throughExpand(expand, dims));
    if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
      return trace(collapse.getSrc(), throughCollapse(collapse, dims));
    if (auto cast = dyn_cast<tensor::CastOp>(op))
      return trace(cast.getSource(), std::move(dims));
    if (auto same = dyn_cast<ir::ReinterpretOp>(op))
      return traceAnywhere(same.getSource());
    if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
      return traceInsert(insert, dims);
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      for (OpOperand *input : generic.getDpsInputOperands())
        trace(input->get(), throughGeneric(generic, *input, dims));
    traceCaptured(op);
  }

  /// Records the reads of both tensors, where the result is read at `dims`.
  void traceInsert(tensor::InsertSliceOp op, ArrayRef<int> dims) {
    RankedTensorType result = op.getResultType();
    llvm::SmallBitVector dropped = op.getDroppedDims();
    SmallVector<int> source;
    for (int64_t i = 0; i < result.getRank(); ++i) {
      if (dropped.test(i))
        continue;
      bool whole = !result.isDynamicDim(i) &&
                   op.getStaticSizes()[i] == result.getDimSize(i);
      source.push_back(whole ? dims[i] : int(partOfDim));
    }
    trace(op.getSource(), source);
    trace(op.getDest(), SmallVector<int>(dims));
  }

  /// Records that the value is read at positions which are not known.
  void traceAnywhere(Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      trace(value, SmallVector<int>(type.getRank(), partOfDim));
  }
  void traceCaptured(Operation *op) {
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op->getRegions(), captured);
    for (Value value : captured)
      traceAnywhere(value);
  }
};
} // namespace

static void traceGeneric(linalg::GenericOp op, ReadTracer &tracer) {
  SmallVector<int> loops = countTo(op.getNumLoops());
  for (OpOperand &operand : op->getOpOperands()) {
    if (!op.payloadUsesValueFromOperand(&operand))
      continue;
    tracer.trace(operand.get(),
                 throughMap(op.getMatchingIndexingMap(&operand), loops,
                            cast<RankedTensorType>(operand.get().getType())));
  }
}

static void traceInsert(tensor::InsertSliceOp op, ReadTracer &tracer) {
  tracer.traceInsert(
      op, countTo(cast<RankedTensorType>(op.getResultType()).getRank()));
}

SmallVector<DimRead>
dimReadsOf(Operation *op, llvm::function_ref<bool(Operation *)> isCloned) {
  ReadTracer tracer{isCloned, {}};
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    traceGeneric(generic, tracer);
    tracer.traceCaptured(op);
  } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    traceInsert(insert, tracer);
  } else if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                 tensor::ExtractSliceOp, tensor::CastOp>(op)) {
    // A stored view reads what its own result reads, with the result's
    // dimensions as loops.
    SmallVector<int> loops =
        countTo(cast<RankedTensorType>(op->getResult(0).getType()).getRank());
    auto opened = [&](Operation *inner) {
      return inner == op || isCloned(inner);
    };
    ReadTracer whole{opened, {}};
    whole.trace(op->getResult(0), loops);
    return std::move(whole.reads);
  } else {
    for (Value operand : allOperands(op))
      tracer.traceAnywhere(operand);
  }
  return std::move(tracer.reads);
}

} // namespace analysis
} // namespace anabranch
