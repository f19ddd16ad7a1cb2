//===- OpKinds.cpp - what fusion knows of an operator ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/fusion/OpKinds.h"

#include "analysis/OperationCost.h"
#include "analysis/Padding.h"
#include "ir/Anabranch.h"
#include "ir/Layout.h"
#include "ir/QuantizedWeight.h"
#include "ir/Scope.h"
#include "ir/SteadyInput.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

bool isReshape(Operation *op) {
  return isa_and_nonnull<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
                         ir::ReinterpretOp>(op);
}

Value lookThroughReshapes(Value value) {
  while (isReshape(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  return value;
}

/// The body only yields its input: a transposition, a broadcast, or a slice by
/// map.
static bool isViewGeneric(linalg::GenericOp op) {
  if (ir::isMarkedStored(op) || op.getNumDpsInputs() != 1 ||
      op.getNumDpsInits() != 1 || op.getNumReductionLoops() != 0)
    return false;
  Operation *yield = op.getBody()->getTerminator();
  return &op.getBody()->front() == yield &&
         yield->getOperand(0) == op.getBody()->getArgument(0);
}

/// The generic reads no tensor and computes little, as an arange or a causal
/// mask does.
static bool isCheapSource(linalg::GenericOp op) {
  if (op.getNumReductionLoops() != 0 || op.getNumDpsInputs() != 0)
    return false;
  return !analysis::isCostlyToRepeat(op) && analysis::operationsOf(op) <= 8;
}

/// Whether the body computes the value that it combines with the running
/// result. MLIR's test of contractions assumes so.
static bool combinesWhatItComputes(linalg::GenericOp op) {
  Operation *combine =
      op.getBody()->getTerminator()->getOperand(0).getDefiningOp();
  if (!combine)
    return false;
  return llvm::all_of(combine->getOperands(), [&](Value operand) {
    return operand.getDefiningOp() ||
           operand == op.getRegionOutputArgs().front();
  });
}

/// Whether both operands have a dimension of their own. A sum of products
/// without them is a reduction, and vectorises as one.
static bool isContraction(linalg::GenericOp op) {
  if (!combinesWhatItComputes(op) || !linalg::isaContractionOpInterface(op))
    return false;
  FailureOr<linalg::ContractionDimensions> dims =
      linalg::inferContractionDims(op);
  return succeeded(dims) && !dims->m.empty() && !dims->n.empty();
}

static OpKind classifyGeneric(linalg::GenericOp op) {
  if (op.getNumReductionLoops() != 0)
    return isContraction(op) ? OpKind::Contraction : OpKind::Reduction;
  if (isViewGeneric(op) || isCheapSource(op) || ir::quantizedWeightOf(op))
    return OpKind::Cloned;
  return OpKind::Pointwise;
}

/// A padded image is stored if it has fewer channels than this. The product
/// then reads across the points of a row, which makes longer runs than the
/// channels do.
static constexpr int64_t fewestChannels = 16;

bool isPaddingOfWindows(Operation *op) {
  auto insert = dyn_cast<tensor::InsertSliceOp>(op);
  return insert && analysis::windowFill(insert.getDest()) &&
         insert.getResultType().getRank() > 0 &&
         insert.getResultType().getShape().back() >= fewestChannels &&
         !op->use_empty() && llvm::all_of(op->getUsers(), [](Operation *user) {
           return ir::isMarkedWindows(user);
         });
}

/// Whether the operator converts, shifts and scales each element of its only
/// operand by constants, into floats.
static bool isAffineStep(linalg::GenericOp op) {
  constexpr int64_t mostOperations = 4;
  if (!op || ir::isMarkedStored(op) || op.getNumReductionLoops() != 0 ||
      op.getNumDpsInputs() != 1 || op.getNumResults() != 1 ||
      !llvm::all_of(op.getIndexingMapsArray(),
                    [](AffineMap map) { return map.isIdentity(); }))
    return false;
  auto result = cast<RankedTensorType>(op.getResult(0).getType());
  int64_t count = 0;
  for (Operation &inner : op.getBody()->without_terminator()) {
    count += inner.hasTrait<OpTrait::ConstantLike>() ? 0 : 1;
    if (!isa<arith::ConstantOp, arith::SIToFPOp, arith::UIToFPOp, arith::ExtFOp,
             arith::TruncFOp, arith::AddFOp, arith::SubFOp, arith::MulFOp>(
            inner))
      return false;
  }
  return isa<FloatType>(result.getElementType()) && count > 0 &&
         count <= mostOperations;
}

/// Whether a tensor of floats is made of bytes that calls compute, in a few
/// steps.
static bool comesFromBytes(linalg::GenericOp op, int64_t steps = 1) {
  constexpr int64_t mostSteps = 4;
  Value source = lookThroughReshapes(op.getDpsInputOperand(0)->get());
  auto step = source.getDefiningOp<linalg::GenericOp>();
  if (step && isAffineStep(step))
    return steps < mostSteps && comesFromBytes(step, steps + 1);
  Type element = cast<RankedTensorType>(source.getType()).getElementType();
  return element.isInteger(8) && !ir::isSteady(source);
}

/// Whether all readers of a tensor work element by element.
static bool goesToPointwise(Value tensor) {
  return llvm::all_of(tensor.getUsers(), [](Operation *user) {
    if (isReshape(user))
      return goesToPointwise(user->getResult(0));
    auto generic = dyn_cast<linalg::GenericOp>(user);
    if (generic && isAffineStep(generic))
      return goesToPointwise(generic.getResult(0));
    return classify(user) == OpKind::Pointwise;
  });
}

bool isWideningOfBytes(Operation *op) {
  auto generic = dyn_cast<linalg::GenericOp>(op);
  // Readers would not come after what the operator waits for.
  bool hasOrder =
      !ir::pointsMade.of(op).empty() || !ir::pointsAwaited.of(op).empty();
  return generic && !hasOrder && isAffineStep(generic) &&
         comesFromBytes(generic) && goesToPointwise(generic.getResult(0));
}

bool readsWindows(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    return ir::isMarkedWindows(lookThroughReshapes(operand).getDefiningOp());
  });
}

/// Classifies every operation of a type as this kind.
template <OpKind kind> static OpKind always(Operation *) { return kind; }

static OpKind classifyOther(Operation *op) {
  if (op->hasTrait<OpTrait::IsTerminator>())
    return OpKind::Return;
  if (op->hasTrait<OpTrait::ConstantLike>() &&
      isa<RankedTensorType>(op->getResult(0).getType()))
    return OpKind::Cloned;
  return OpKind::Scalar;
}

OpKind classify(Operation *op) {
  return llvm::TypeSwitch<Operation *, OpKind>(op)
      .Case(classifyGeneric)
      .Case<tensor::ExpandShapeOp, tensor::CollapseShapeOp,
            tensor::ExtractSliceOp, tensor::CastOp, tensor::EmptyOp,
            linalg::FillOp, ir::ReinterpretOp>(always<OpKind::Cloned>)
      .Case<tensor::InsertSliceOp>(always<OpKind::Insert>)
      .Case<ir::AttentionOp>(always<OpKind::Attention>)
      .Case<ir::ScatterOp>(always<OpKind::Scatter>)
      .Case<ir::ScanOp>(always<OpKind::Scan>)
      .Case<ir::FftOp>(always<OpKind::Fft>)
      .Case<ir::AtenOp>(always<OpKind::Fallback>)
      .Case<ir::FenceOp>(always<OpKind::Fence>)
      .Default(classifyOther);
}

} // namespace schedule
} // namespace anabranch
