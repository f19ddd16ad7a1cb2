//===- VisibleKeys.cpp - the keys that a mask shows to a tile -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/VisibleKeys.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The first i of 0, 1, ... below `count` for which the condition holds, or
/// `count`. The loop carries an i64: its blocks have no index to convert.
static Value firstWhere(LaneBuilder &lanes, Value count,
                        function_ref<Value(Value i)> condition) {
  OpBuilder &b = lanes.builder;
  OpBuilder::InsertionGuard guard(b);
  Type i64 = b.getI64Type(), bit = b.getI1Type();
  auto op = b.create<scf::WhileOp>(lanes.loc, TypeRange(i64),
                                   ValueRange(lanes.i64(0)));
  Block *before = b.createBlock(&op.getBefore(), {}, i64, lanes.loc);
  {
    LaneBuilder::Scope scope(lanes);
    Value carried = before->getArgument(0);
    Value i = lanes.make<arith::IndexCastOp>(b.getIndexType(), carried);
    auto literal = [&](bool value) {
      return lanes.constant(b.getBoolAttr(value));
    };
    auto search = [&]() -> SmallVector<Value> {
      return {lanes.make<arith::XOrIOp>(condition(i), literal(true))};
    };
    auto stop = [&]() -> SmallVector<Value> { return {literal(false)}; };
    Value isInside =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ult, i, count);
    Value goesOn = lanes.ifElse(isInside, TypeRange(bit), search, stop)[0];
    b.create<scf::ConditionOp>(lanes.loc, goesOn, carried);
  }
  Block *after = b.createBlock(&op.getAfter(), {}, i64, lanes.loc);
  {
    LaneBuilder::Scope scope(lanes);
    Value next = lanes.make<arith::AddIOp>(after->getArgument(0), lanes.i64(1));
    b.create<scf::YieldOp>(lanes.loc, next);
  }
  b.setInsertionPointAfter(op);
  return lanes.make<arith::IndexCastOp>(b.getIndexType(), op.getResult(0));
}

/// A mask that all keys share hides all or none.
bool VisibleKeys::hidesKeys() {
  if (!attention.op.getMask())
    return false;
  auto type = cast<RankedTensorType>(attention.op.getMask().getType());
  return type.getRank() > 0 && type.getShape().back() != 1;
}

Value VisibleKeys::vectorsUpToLast(const RowBlock &rows, Value first,
                                   Value count) {
  Value width = lanes.index(attention.blocking.lanes);
  Value hidden = firstWhere(lanes, count, [&](Value i) {
    Value last = lanes.subIndex(lanes.subIndex(count, i), lanes.index(1));
    return isSeen(rows, lanes.addIndex(first, lanes.mulIndex(last, width)));
  });
  return lanes.subIndex(count, hidden);
}

Value VisibleKeys::countFor(const RowBlock &rows,
                            const AttentionContext::KeyBlock &keys) {
  if (!hidesKeys())
    return keys.count;
  Value width = lanes.index(attention.blocking.lanes);
  Value step = lanes.index(attention.blocking.keysOfStep());
  Value vectors =
      vectorsUpToLast(rows, keys.first, lanes.ceilDivIndex(keys.count, width));
  Value steps = lanes.ceilDivIndex(lanes.mulIndex(vectors, width), step);
  return lanes.minIndex(lanes.mulIndex(steps, step), keys.count);
}

void VisibleKeys::narrowTile() {
  AttentionContext::Tile &tile = attention.tile;
  if (!hidesKeys())
    return;
  int64_t width = attention.blocking.lanes;
  RowBlock rows{tile.firstQuery, tile.queryEnd};
  Value vectors = lanes.ceilDivIndex(tile.keyEnd, lanes.index(width));
  Value left = vectorsUpToLast(rows, lanes.index(0), vectors);
  Value before = firstWhere(lanes, left, [&](Value i) {
    return isSeen(rows, lanes.mulIndex(i, lanes.index(width)));
  });
  tile.keyEnd =
      lanes.minIndex(lanes.mulIndex(left, lanes.index(width)), tile.keyEnd);
  // Blocks of keys that are packed begin at multiples of their size, as the
  // footprint says.
  int64_t unit =
      attention.blocking.isStreamed() ? width : attention.blocking.keys;
  Value first = lanes.mulIndex(before, lanes.index(width));
  tile.firstKey = lanes.mulIndex(lanes.divIndex(first, lanes.index(unit)),
                                 lanes.index(unit));
}

/// The rows between which the mask may differ.
VisibleKeys::RowBlock VisibleKeys::rowsOfMask(const RowBlock &rows) {
  auto type = cast<RankedTensorType>(attention.op.getMask().getType());
  int64_t rank = type.getRank();
  bool sharesHeads = rank < 3 || type.getDimSize(rank - 3) == 1;
  bool sharesQueries = rank < 2 || type.getDimSize(rank - 2) == 1;
  Value end = rows.end;
  if (sharesHeads && attention.blocking.group > 1)
    end = attention.queryCount;
  if (sharesQueries && (sharesHeads || attention.blocking.group == 1))
    end = lanes.addIndex(rows.first, lanes.index(1));
  return {rows.first, end};
}

Value VisibleKeys::isSeen(const RowBlock &rows, Value key) {
  int64_t width = attention.blocking.lanes;
  LaneBuilder::MaskGuard guard(lanes, width, Value());
  auto [first, end] = rowsOfMask(rows);
  auto type = VectorType::get({width}, lanes.builder.getI1Type());
  Value none = lanes.constant(DenseElementsAttr::get(type, false));
  Value seen =
      lanes.loop(first, end, 1, {none},
                 [&](Value row, ValueRange any) -> SmallVector<Value> {
                   return {lanes.make<arith::OrIOp>(any[0], seenBy(row, key))};
                 })[0];
  return lanes.make<vector::ReductionOp>(vector::CombiningKind::OR, seen);
}

Value VisibleKeys::seenBy(Value row, Value key) {
  Value mask = attention.op.getMask();
  int64_t width = attention.blocking.lanes;
  Value inside = lanes.prefixMask(lanes.subIndex(attention.tile.keyEnd, key));
  LaneBuilder::MaskGuard guard(lanes, width, inside, /*maybeEmpty=*/true);
  Lanes query = Lanes::uniform(row), keys = Lanes::linear(key, 1, width);
  bool isBool =
      cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1);
  if (isBool)
    return lanes.make<arith::AndIOp>(
        inside, lanes.vector(attention.evaluator->evaluate(
                    mask, attention.position(mask, query, keys))));
  Value hidden = attention.vector(-std::numeric_limits<double>::infinity());
  // A NaN is no minus infinity: it makes the row's result NaN.
  Value isOther = lanes.make<arith::CmpFOp>(
      arith::CmpFPredicate::UNE,
      lanes.vector(attention.element(mask, query, keys)), hidden);
  return lanes.make<arith::AndIOp>(inside, isOther);
}

} // namespace kernels
} // namespace anabranch
