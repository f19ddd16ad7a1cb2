//===- IndexRange.cpp - indices from one to another -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/footprint/IndexRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

Value RangeBuilder::select(Value condition, Value a, Value b) {
  return lanes.make<arith::SelectOp>(condition, a, b);
}

IndexRange RangeBuilder::point(Value index) const { return {index, index}; }

IndexRange RangeBuilder::between(Value first, Value end) {
  return {first, lanes.subIndex(end, lanes.index(1))};
}

IndexRange RangeBuilder::whole(Value size) {
  auto count = getConstantIntValue(size);
  return {lanes.index(0), lanes.subIndex(size, lanes.index(1)),
          /*maybeEmpty=*/!count || *count == 0};
}

Value RangeBuilder::isEmpty(IndexRange a) {
  if (!a.maybeEmpty)
    return lanes.constant(lanes.builder.getBoolAttr(false));
  return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, a.high, a.low);
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

IndexRange RangeBuilder::add(IndexRange a, IndexRange b) {
  return {lanes.addIndex(a.low, b.low), lanes.addIndex(a.high, b.high),
          a.maybeEmpty || b.maybeEmpty, a.isNatural && b.isNatural};
}

IndexRange RangeBuilder::mul(IndexRange a, IndexRange b) {
  bool maybeEmpty = a.maybeEmpty || b.maybeEmpty;
  auto factor = b.low == b.high ? getConstantIntValue(b.low) : std::nullopt;
  if ((factor && *factor >= 0) || (a.isNatural && b.isNatural))
    return {lanes.mulIndex(a.low, b.low), lanes.mulIndex(a.high, b.high),
            maybeEmpty, a.isNatural && b.isNatural};
  SmallVector<Value> corners;
  for (Value left : {a.low, a.high})
    for (Value right : {b.low, b.high})
      corners.push_back(lanes.mulIndex(left, right));
  IndexRange result{corners[0], corners[0], maybeEmpty, false};
  for (Value corner : ArrayRef(corners).drop_front()) {
    result.low = lanes.minIndex(result.low, corner);
    result.high = lanes.maxIndex(result.high, corner);
  }
  return result;
}

/// Code for an empty tensor may run, but its result is not used. So a divisor
/// of zero may become one.
Value RangeBuilder::divisorOf(Value size) {
  return getConstantIntValue(size) ? size
                                   : lanes.maxIndex(size, lanes.index(1));
}

Value RangeBuilder::quotient(IndexRange a, Value index, Value divisor) {
  if (a.isNatural && !a.maybeEmpty)
    return lanes.divIndex(index, divisor);
  return lanes.make<arith::FloorDivSIOp>(index, divisor);
}

IndexRange RangeBuilder::floorDiv(IndexRange a, Value divisor) {
  divisor = divisorOf(divisor);
  return {quotient(a, a.low, divisor), quotient(a, a.high, divisor),
          a.maybeEmpty, a.isNatural};
}

/// Exact if the range lies within one multiple of the divisor. Else the result
/// is all remainders.
IndexRange RangeBuilder::mod(IndexRange a, Value divisor) {
  divisor = divisorOf(divisor);
  Value first = quotient(a, a.low, divisor);
  Value last = quotient(a, a.high, divisor);
  Value isOne =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::eq, first, last);
  Value start = lanes.mulIndex(first, divisor);
  Value largest = lanes.subIndex(divisor, lanes.index(1));
  return {select(isOne, lanes.subIndex(a.low, start), lanes.index(0)),
          select(isOne, lanes.subIndex(a.high, start), largest), a.maybeEmpty};
}

IndexRange RangeBuilder::clamp(IndexRange a, Value size) {
  return {lanes.maxIndex(a.low, lanes.index(0)),
          lanes.minIndex(a.high, lanes.subIndex(size, lanes.index(1))),
          /*maybeEmpty=*/true};
}

IndexRange RangeBuilder::hull(IndexRange a, IndexRange b) {
  return {lanes.minIndex(a.low, b.low), lanes.maxIndex(a.high, b.high),
          a.maybeEmpty || b.maybeEmpty, a.isNatural && b.isNatural};
}

SmallVector<IndexRange> RangeBuilder::split(IndexRange positions,
                                            ArrayRef<Value> sizes) {
  SmallVector<IndexRange> parts(sizes.size());
  for (size_t i = sizes.size(); i-- > 1;) {
    parts[i] = mod(positions, sizes[i]);
    positions = floorDiv(positions, sizes[i]);
  }
  if (!parts.empty())
    parts[0] = positions;
  return parts;
}

std::optional<IndexRange> RangeBuilder::evaluate(AffineExpr expr,
                                                 ArrayRef<IndexRange> dims,
                                                 ArrayRef<Value> symbols) {
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return dims[dim.getPosition()];
  if (auto constant = dyn_cast<AffineConstantExpr>(expr)) {
    IndexRange range = point(lanes.index(constant.getValue()));
    range.isNatural = constant.getValue() >= 0;
    return range;
  }
  if (auto symbol = dyn_cast<AffineSymbolExpr>(expr)) {
    Value value = function.scalar(symbols[symbol.getPosition()]);
    if (!value)
      return std::nullopt;
    Type index = lanes.builder.getIndexType();
    if (value.getType() != index)
      value = lanes.make<arith::IndexCastOp>(index, value);
    IndexRange range = point(value);
    range.isNatural = false;
    return range;
  }
  auto binary = cast<AffineBinaryOpExpr>(expr);
  auto left = evaluate(binary.getLHS(), dims, symbols);
  auto right = evaluate(binary.getRHS(), dims, symbols);
  if (!left || !right)
    return std::nullopt;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return add(*left, *right);
  case AffineExprKind::Mul:
    return mul(*left, *right);
  case AffineExprKind::FloorDiv:
    return right->low == right->high
               ? std::optional(floorDiv(*left, right->low))
               : std::nullopt;
  case AffineExprKind::Mod:
    return right->low == right->high ? std::optional(mod(*left, right->low))
                                     : std::nullopt;
  default:
    return std::nullopt;
  }
}

} // namespace kernels
} // namespace anabranch
