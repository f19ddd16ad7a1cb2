//===- OpKinds.cpp - what fusion knows of an operator ---------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "schedule/fusion/OpKinds.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

bool isReshape(Operation *op) {
  return isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op);
}

/// A body that hands its input on: transpose, broadcast, slice by map.
static bool isViewGeneric(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 1 || op.getNumDpsInits() != 1 ||
      op.getNumReductionLoops() != 0)
    return false;
  Operation *yield = op.getBody()->getTerminator();
  return &op.getBody()->front() == yield &&
         yield->getOperand(0) == op.getBody()->getArgument(0);
}

/// No tensor comes in and little is computed: an arange, a causal mask.
static bool isCheapSource(linalg::GenericOp op) {
  if (op.getNumReductionLoops() != 0 || op.getNumDpsInputs() != 0)
    return false;
  return !isExpensive(op) && bodyCost(op) <= 8;
}

/// Both operands span a dimension of their own; a plain sum of products is a
/// reduction, which vectorises as such.
static bool isContraction(linalg::GenericOp op) {
  if (!linalg::isaContractionOpInterface(op))
    return false;
  FailureOr<linalg::ContractionDimensions> dims =
      linalg::inferContractionDims(op);
  return succeeded(dims) && !dims->m.empty() && !dims->n.empty();
}

static OpKind classifyGeneric(linalg::GenericOp op) {
  if (op.getNumReductionLoops() != 0)
    return isContraction(op) ? OpKind::Contraction : OpKind::Reduction;
  if (isViewGeneric(op) || isCheapSource(op))
    return OpKind::Cloned;
  return OpKind::Pointwise;
}

OpKind classify(Operation *op) {
  if (auto generic = dyn_cast<linalg::GenericOp>(op))
    return classifyGeneric(generic);
  if (isReshape(op) || isa<tensor::ExtractSliceOp, tensor::CastOp,
                           tensor::EmptyOp, linalg::FillOp>(op))
    return OpKind::Cloned;
  if (isa<tensor::InsertSliceOp>(op))
    return OpKind::Insert;
  if (isa<ir::AttentionOp>(op))
    return OpKind::Attention;
  if (isa<ir::ScatterOp>(op))
    return OpKind::Scatter;
  if (isa<ir::ScanOp>(op))
    return OpKind::Scan;
  if (isa<ir::AtenOp>(op))
    return OpKind::Fallback;
  if (isa<ir::FenceOp>(op))
    return OpKind::Fence;
  if (op->hasTrait<OpTrait::IsTerminator>())
    return OpKind::Return;
  if (op->hasTrait<OpTrait::ConstantLike>() &&
      isa<RankedTensorType>(op->getResult(0).getType()))
    return OpKind::Cloned;
  return OpKind::Scalar;
}

bool isExpensive(Operation *op) {
  bool expensive = false;
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      bool cheapMath =
          isa<math::AbsFOp, math::AbsIOp, math::CopySignOp, math::CeilOp,
              math::FloorOp, math::FmaOp, math::TruncOp, math::RoundEvenOp>(
              inner);
      expensive |= isa<tensor::ExtractOp>(inner) ||
                   (isa<math::MathDialect>(inner->getDialect()) && !cheapMath);
    });
  return expensive;
}

unsigned bodyCost(Operation *op) {
  unsigned cost = 0;
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      bool free = inner->hasTrait<OpTrait::IsTerminator>() ||
                  inner->hasTrait<OpTrait::ConstantLike>() ||
                  isa<linalg::IndexOp>(inner);
      cost += free ? 0 : isa<math::MathDialect>(inner->getDialect()) ? 8 : 1;
    });
  return cost;
}

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
static Loops loopsOfResult(RankedTensorType type) {
  Loops loops;
  loops.sizes.assign(type.getShape().begin(), type.getShape().end());
  loops.reduces.assign(type.getRank(), false);
  loops.resultDims.push_back(countTo(type.getRank()));
  return loops;
}

Loops loopsOf(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  if (!generic)
    return op->getNumResults() == 1 &&
                   isa<RankedTensorType>(op->getResult(0).getType())
               ? loopsOfResult(
                     cast<RankedTensorType>(op->getResult(0).getType()))
               : Loops();
  Loops loops;
  llvm::append_range(loops.sizes, generic.getStaticLoopRanges());
  for (utils::IteratorType iterator : generic.getIteratorTypesArray())
    loops.reduces.push_back(iterator == utils::IteratorType::reduction);
  for (OpOperand &init : generic.getDpsInitsMutable()) {
    SmallVector<int> dims;
    for (AffineExpr expr : generic.getMatchingIndexingMap(&init).getResults()) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      dims.push_back(dim ? int(dim.getPosition()) : int(kPartOfDim));
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
      dims.push_back(kUnitDim);
    else if (auto dim = dyn_cast<AffineDimExpr>(expr))
      dims.push_back(loopDims[dim.getPosition()]);
    else
      dims.push_back(kPartOfDim);
  }
  return dims;
}

static SmallVector<int> throughGeneric(linalg::GenericOp view, OpOperand &input,
                                       ArrayRef<int> dims) {
  AffineMap output = view.getMatchingIndexingMap(view.getDpsInitOperand(0));
  SmallVector<int> loopDims(view.getNumLoops(), kPartOfDim);
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
    int here = dropped.test(i) ? int(kPartOfDim) : dims[next++];
    bool whole = !source.isDynamicDim(i) &&
                 slice.getStaticSizes()[i] == source.getDimSize(i);
    result.push_back(source.getDimSize(i) == 1 ? int(kUnitDim)
                     : whole                   ? here
                                               : int(kPartOfDim));
  }
  return result;
}

/// Each group of the larger shape holds at most one dimension that is not one,
/// or the reshape mixes dimensions.
static int onlyLargeDim(ArrayRef<int64_t> group, RankedTensorType type) {
  int found = kUnitDim;
  for (int64_t dim : group) {
    if (type.getDimSize(dim) == 1)
      continue;
    if (found != kUnitDim)
      return kPartOfDim;
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
  SmallVector<int> result(source.getRank(), kUnitDim);
  for (auto [i, group] : llvm::enumerate(collapse.getReassociationIndices())) {
    int large = onlyLargeDim(group, source);
    for (int64_t dim : group)
      if (source.getDimSize(dim) != 1)
        result[dim] = large == kPartOfDim ? int(kPartOfDim) : dims[i];
  }
  return result;
}

namespace {
/// Follows reads up to the values that somebody stores.
struct ReadTracer {
  llvm::function_ref<bool(Operation *)> isCloned;
  SmallVector<Read> reads;

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
    if (auto generic = dyn_cast<linalg::GenericOp>(op))
      for (OpOperand *input : generic.getDpsInputOperands())
        trace(input->get(), throughGeneric(generic, *input, dims));
    traceCaptured(op);
  }

  /// Reads at positions that nothing is known of.
  void traceAnywhere(Value value) {
    if (auto type = dyn_cast<RankedTensorType>(value.getType()))
      trace(value, SmallVector<int>(type.getRank(), kPartOfDim));
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
  RankedTensorType result = op.getResultType();
  SmallVector<int> loops = countTo(result.getRank());
  llvm::SmallBitVector dropped = op.getDroppedDims();
  SmallVector<int> source;
  for (int64_t i = 0; i < result.getRank(); ++i) {
    if (dropped.test(i))
      continue;
    bool whole = !result.isDynamicDim(i) &&
                 op.getStaticSizes()[i] == result.getDimSize(i);
    source.push_back(whole ? int(i) : int(kPartOfDim));
  }
  tracer.trace(op.getSource(), source);
  tracer.trace(op.getDest(), loops);
}

SmallVector<Read> readsOf(Operation *op,
                          llvm::function_ref<bool(Operation *)> isCloned) {
  ReadTracer tracer{isCloned, {}};
  if (auto generic = dyn_cast<linalg::GenericOp>(op)) {
    traceGeneric(generic, tracer);
    tracer.traceCaptured(op);
  } else if (auto insert = dyn_cast<tensor::InsertSliceOp>(op)) {
    traceInsert(insert, tracer);
  } else if (isReshape(op) || isa<tensor::ExtractSliceOp, tensor::CastOp>(op)) {
    // A view that is stored: the same tracing, from the result's dimensions.
    SmallVector<int> loops =
        countTo(cast<RankedTensorType>(op->getResult(0).getType()).getRank());
    // Named, since a function_ref does not keep what it refers to alive.
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

} // namespace schedule
} // namespace anabranch
