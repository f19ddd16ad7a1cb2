//===- ExpandExtrema.cpp - maxima and minima of floats --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/math/ExpandExtrema.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;

namespace anabranch {
namespace native {

/// Whether the value is a constant without NaN.
static bool isOrdered(Value value) {
  DenseFPElementsAttr elements;
  APFloat number(0.0);
  if (matchPattern(value, m_Constant(&elements)) && elements.isSplat())
    number = elements.getSplatValue<APFloat>();
  else if (!matchPattern(value, m_ConstantFloat(&number)))
    return false;
  return !number.isNaN();
}

static Value quietNan(OpBuilder &builder, Location loc, Type type) {
  auto element = cast<FloatType>(getElementTypeOrSelf(type));
  TypedAttr nan = builder.getFloatAttr(
      element, APFloat::getQNaN(element.getFloatSemantics()));
  if (auto shape = dyn_cast<VectorType>(type))
    nan = DenseElementsAttr::get(shape, Attribute(nan));
  return builder.create<arith::ConstantOp>(loc, nan);
}

/// One vmaxps, which returns its second operand if one is NaN, and one blend.
/// LLVM's own form also orders the zeros and is three times as long.
static Value expand(Operation *op) {
  OpBuilder builder(op);
  Location loc = op->getLoc();
  Value a = op->getOperand(0), b = op->getOperand(1);
  if (isOrdered(b))
    std::swap(a, b);
  auto predicate = isa<arith::MaximumFOp>(op) ? arith::CmpFPredicate::OGT
                                              : arith::CmpFPredicate::OLT;
  Value wins = builder.create<arith::CmpFOp>(loc, predicate, a, b);
  Value ordered = builder.create<arith::SelectOp>(loc, wins, a, b);
  if (isOrdered(a))
    return ordered;
  Value isNan =
      builder.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, a, a);
  // A constant in the place of `a` would let LLVM join both conditions, without
  // vmaxps.
  return builder.create<arith::SelectOp>(
      loc, isNan, quietNan(builder, loc, a.getType()), ordered);
}

static bool isInstruction(Operation *op, const TargetInfo &target) {
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  return target.isa().hasExtrema() && (element.isF32() || element.isF64());
}

static bool isExtremum(Operation *op) {
  return isa_and_nonnull<arith::MaximumFOp, arith::MinimumFOp>(op);
}

/// Whether the value is the extremum that a loop carries from trip to trip, or
/// one that began with it, and whose operands are in order.
static bool isCarried(Value value) {
  while (isExtremum(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(1);
  auto argument = dyn_cast<BlockArgument>(value);
  auto loop =
      argument
          ? dyn_cast<LoopLikeOpInterface>(argument.getOwner()->getParentOp())
          : LoopLikeOpInterface();
  return loop && llvm::is_contained(loop.getRegionIterArgs(), argument);
}

/// The first operand is compared with itself, and NaN in the second one stays.
/// As the second one, a carried extremum waits for one comparison less in each
/// trip.
static void putCarriedSecond(Operation *op) {
  Value a = op->getOperand(0), b = op->getOperand(1);
  if (isCarried(a) && !isCarried(b))
    op->setOperands({b, a});
}

void expandExtrema(ModuleOp module, const TargetInfo &target) {
  SmallVector<Operation *> extrema;
  module.walk([&](Operation *op) {
    if (isExtremum(op) && !isInstruction(op, target))
      extrema.push_back(op);
  });
  llvm::for_each(extrema, putCarriedSecond);
  for (Operation *op : extrema) {
    op->getResult(0).replaceAllUsesWith(expand(op));
    op->erase();
  }
}

} // namespace native
} // namespace anabranch
