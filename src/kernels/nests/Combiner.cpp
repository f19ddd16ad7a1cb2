//===- Combiner.cpp - reductions that may be split over lanes -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/Combiner.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The operation that makes `yielded`, if it is one associative operation and
/// the only user of the accumulator; else null.
static Operation *asCombiner(Value yielded, BlockArgument accumulator) {
  Operation *combiner = yielded.getDefiningOp();
  if (!combiner || !accumulator.hasOneUse() ||
      *accumulator.user_begin() != combiner ||
      combiner->getNumOperands() != 2 || !neutralElement(combiner))
    return nullptr;
  bool associative =
      isa<arith::AddFOp, arith::AddIOp, arith::MulFOp, arith::MulIOp,
          arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp,
          arith::MinNumFOp, arith::MaxSIOp, arith::MaxUIOp, arith::MinSIOp,
          arith::MinUIOp, arith::AndIOp, arith::OrIOp, arith::XOrIOp>(combiner);
  return associative ? combiner : nullptr;
}

Operation *findCombiner(linalg::GenericOp op, unsigned output) {
  Block &body = op.getRegion().front();
  return asCombiner(body.getTerminator()->getOperand(output),
                    body.getArgument(op.getNumDpsInputs() + output));
}

Operation *findCombiner(ir::ScanOp op) {
  Block &body = op.getBody().front();
  Operation *combiner =
      asCombiner(body.getTerminator()->getOperand(0), body.getArgument(0));
  bool isAlone = combiner && llvm::is_contained(combiner->getOperands(),
                                                Value(body.getArgument(1)));
  return isAlone ? combiner : nullptr;
}

bool hasCombiners(linalg::GenericOp op) {
  for (unsigned i = 0; i < op.getNumResults(); ++i)
    if (!findCombiner(op, i))
      return false;
  return true;
}

TypedAttr neutralElement(Operation *combiner) {
  Type type = combiner->getResult(0).getType();
  // For floating-point extremes infinity is neutral, also where they propagate
  // NaN.
  if (auto floating = dyn_cast<FloatType>(type)) {
    bool largest = isa<arith::MaximumFOp, arith::MaxNumFOp>(combiner);
    if (largest || isa<arith::MinimumFOp, arith::MinNumFOp>(combiner))
      return FloatAttr::get(
          type, APFloat::getInf(floating.getFloatSemantics(), largest));
    if (isa<arith::AddFOp>(combiner))
      return FloatAttr::get(type, -0.0);
    if (isa<arith::MulFOp>(combiner))
      return FloatAttr::get(type, 1.0);
    return TypedAttr();
  }
  return arith::getNeutralElement(combiner).value_or(TypedAttr());
}

Value combine(LaneBuilder &lanes, Operation *combiner, Value a, Value b) {
  if (isa<arith::MaximumFOp, arith::MinimumFOp>(combiner))
    return lanes.extremum(isa<arith::MaximumFOp>(combiner), a, b);
  OperationState state(combiner->getLoc(), combiner->getName(), {a, b},
                       a.getType(), combiner->getAttrs());
  return lanes.share(lanes.builder.create(state)->getResult(0));
}

Value combineBefore(LaneBuilder &lanes, Operation *combiner, Value vector) {
  auto type = cast<VectorType>(vector.getType());
  int64_t width = type.getNumElements();
  Value neutral = lanes.constant(
      DenseElementsAttr::get(type, Attribute(neutralElement(combiner))));
  for (int64_t distance = 1; distance < width; distance *= 2) {
    SmallVector<int64_t> order;
    for (int64_t lane = 0; lane < width; ++lane)
      order.push_back(lane < distance ? width + lane : lane - distance);
    Value before = lanes.make<vector::ShuffleOp>(vector, neutral, order);
    vector = combine(lanes, combiner, before, vector);
  }
  return vector;
}

Value combineAcross(LaneBuilder &lanes, Operation *combiner, Value vector) {
  auto type = dyn_cast<VectorType>(vector.getType());
  if (!type)
    return vector;
  // Halving keeps the order of a tree. A single reduction operation on floats
  // would go lane by lane.
  for (int64_t width = type.getNumElements(); width > 1; width /= 2) {
    auto half = [&](int64_t first) -> Value {
      SmallVector<int64_t> order;
      for (int64_t lane = 0; lane < width / 2; ++lane)
        order.push_back(first + lane);
      return lanes.make<vector::ShuffleOp>(vector, vector, order);
    };
    Value low = half(0), high = half(width / 2);
    vector = combine(lanes, combiner, low, high);
  }
  return lanes.make<vector::ExtractOp>(vector, int64_t(0));
}

} // namespace kernels
} // namespace anabranch
