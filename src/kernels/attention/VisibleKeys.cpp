//===- VisibleKeys.cpp - the keys that a mask shows to a tile -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/VisibleKeys.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"

#include <algorithm>

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

bool VisibleKeys::sharesHeads() const {
  auto type = cast<RankedTensorType>(attention.op.getMask().getType());
  int64_t rank = type.getRank();
  return rank < 3 || type.getDimSize(rank - 3) == 1;
}

bool VisibleKeys::sharesQueries() const {
  auto type = cast<RankedTensorType>(attention.op.getMask().getType());
  int64_t rank = type.getRank();
  return rank < 2 || type.getDimSize(rank - 2) == 1;
}

bool VisibleKeys::isOneRow() const {
  return sharesQueries() && (sharesHeads() || attention.blocking.group == 1);
}

bool VisibleKeys::rowsAreQueries() const {
  return sharesHeads() && attention.blocking.group > 1;
}

/// A mask that all keys share hides all or none. A search of rows of few keys
/// would take longer than it saves.
bool VisibleKeys::hasSearch() const {
  if (!attention.op.getMask())
    return false;
  auto type = cast<RankedTensorType>(attention.op.getMask().getType());
  if (type.getRank() == 0 || type.getShape().back() == 1)
    return false;
  int64_t keys = type.getShape().back();
  return sharesQueries() || ShapedType::isDynamic(keys) ||
         keys > attention.blocking.keysOfStep();
}

/// The rows between which the mask may differ.
VisibleKeys::RowBlock VisibleKeys::rowsOfMask(const RowBlock &rows) {
  Value end = rows.end;
  if (rowsAreQueries())
    end = attention.queryCount;
  if (isOneRow())
    end = lanes.addIndex(rows.first, lanes.index(1));
  return {rows.first, end};
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

/// Keys of a step of the search: a register of elements of the mask.
int64_t VisibleKeys::width() const {
  constexpr int64_t fewest = 8, most = 64;
  Type element =
      cast<RankedTensorType>(attention.op.getMask().getType()).getElementType();
  int64_t bytes = (element.getIntOrFloatBitWidth() + 7) / 8;
  int64_t registerBytes =
      attention.blocking.lanes *
      (attention.blocking.element.getIntOrFloatBitWidth() / 8);
  return std::clamp(registerBytes / bytes, fewest, most);
}

/// Which floats are other numbers than minus infinity, or which are zeros.
/// Their bits say so, also where the processor has no arithmetic on them. A NaN
/// is no minus infinity: it makes the row's result NaN.
Value VisibleKeys::compareFloats(Value floats, Bits which) {
  auto type = cast<FloatType>(getElementTypeOrSelf(floats));
  Type integer = lanes.builder.getIntegerType(type.getWidth());
  Value bits = castBits(lanes, floats, integer);
  auto splat = [&](const APInt &value) {
    return lanes.constant(
        DenseElementsAttr::get(cast<ShapedType>(bits.getType()), value));
  };
  APInt hidden =
      APFloat::getInf(type.getFloatSemantics(), true).bitcastToAPInt();
  if (which == Bits::Seen)
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, bits,
                                     splat(hidden));
  // Zeros have any sign.
  APInt magnitude = APInt::getSignedMaxValue(type.getWidth());
  return lanes.make<arith::CmpIOp>(
      arith::CmpIPredicate::eq,
      lanes.make<arith::AndIOp>(bits, splat(magnitude)),
      splat(APInt::getZero(type.getWidth())));
}

Value VisibleKeys::bitsAt(Value row, Value key, Bits which) {
  Value mask = attention.op.getMask();
  int64_t count = width();
  LaneBuilder::MaskGuard guard(lanes, count, Value());
  Value elements = lanes.vector(attention.evaluator->evaluate(
      mask, attention.position(mask, Lanes::uniform(row),
                               Lanes::linear(key, 1, count))));
  if (isa<FloatType>(getElementTypeOrSelf(elements)))
    elements = compareFloats(elements, which);
  Type word = lanes.builder.getIntegerType(count);
  Value bits =
      lanes.make<vector::BitCastOp>(VectorType::get({1}, word), elements);
  bits = lanes.make<vector::ExtractOp>(bits, ArrayRef<int64_t>{0});
  Type i64 = lanes.builder.getI64Type();
  return word == i64 ? bits : lanes.make<arith::ExtUIOp>(i64, bits);
}

/// Vectors of keys that overlap at one end of the row lie inside it.
VisibleKeys::Run VisibleKeys::search(Value row, Value asksWhole) {
  Value step = lanes.index(width()), keyEnd = attention.tile.keyEnd;
  Value vectors = lanes.ceilDivIndex(keyEnd, step);
  auto fromEnd = [&](Value i) {
    Value after = lanes.mulIndex(lanes.addIndex(i, lanes.index(1)), step);
    return lanes.maxIndex(lanes.subIndex(keyEnd, after), lanes.index(0));
  };
  auto isSeen = [&](Value key) {
    return lanes.make<arith::CmpIOp>(
        arith::CmpIPredicate::ne, bitsAt(row, key, Bits::Seen), lanes.i64(0));
  };
  Value hidden =
      firstWhere(lanes, vectors, [&](Value i) { return isSeen(fromEnd(i)); });
  Type i64 = lanes.builder.getI64Type(), bit = lanes.builder.getI1Type();
  Value isAny =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, hidden, vectors);
  auto found = lanes.ifElse(
      isAny, {i64, i64, bit},
      [&]() -> SmallVector<Value> {
        Value last = fromEnd(hidden);
        Value after = lanes.make<math::CountLeadingZerosOp>(
            bitsAt(row, last, Bits::Seen));
        Value end = lanes.subIndex(lanes.addIndex(last, lanes.index(64)),
                                   toIndex(after));
        auto [begin, isWhole] = beginOf(row, end, asksWhole);
        return {lanes.toI64(begin), lanes.toI64(end), isWhole};
      },
      [&]() -> SmallVector<Value> {
        return {lanes.i64(0), lanes.i64(0), asksWhole};
      });
  return {toIndex(found[0]), toIndex(found[1]), found[2]};
}

Value VisibleKeys::toIndex(Value integer) {
  return lanes.make<arith::IndexCastOp>(lanes.builder.getIndexType(), integer);
}

/// Where a run that ends there begins, and whether the row sees all its keys
/// unchanged. Rows of a tile whose runs are not asked for begin at zero.
std::pair<Value, Value> VisibleKeys::beginOf(Value row, Value end,
                                             Value asksWhole) {
  Value step = lanes.index(width());
  Value lastVector = lanes.subIndex(attention.tile.keyEnd, step);
  Type i64 = lanes.builder.getI64Type(), bit = lanes.builder.getI1Type();
  auto found = lanes.ifElse(
      asksWhole, {i64, bit},
      [&]() -> SmallVector<Value> {
        auto fromStart = [&](Value i) {
          return lanes.minIndex(lanes.mulIndex(i, step), lastVector);
        };
        Value vectors = lanes.ceilDivIndex(end, step);
        Value before = firstWhere(lanes, vectors, [&](Value i) {
          return lanes.make<arith::CmpIOp>(
              arith::CmpIPredicate::ne, bitsAt(row, fromStart(i), Bits::Seen),
              lanes.i64(0));
        });
        Value first = fromStart(before);
        Value zeros = lanes.make<math::CountTrailingZerosOp>(
            bitsAt(row, first, Bits::Seen));
        Value begin = lanes.addIndex(first, toIndex(zeros));
        return {lanes.toI64(begin), isWhole(row, begin, end)};
      },
      [&]() -> SmallVector<Value> {
        return {lanes.i64(0), lanes.constant(lanes.builder.getBoolAttr(false))};
      });
  return {toIndex(found[0]), found[1]};
}

/// Whether the mask changes no score of the keys from `begin` to before `end`.
Value VisibleKeys::isWhole(Value row, Value begin, Value end) {
  int64_t count = width();
  Value step = lanes.index(count), length = lanes.subIndex(end, begin);
  auto equal = [&](Value a, Value b) -> Value {
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::eq, a, b);
  };
  Value all = lanes.i64(count == 64 ? -1 : (int64_t(1) << count) - 1);
  auto inVectors = [&]() -> SmallVector<Value> {
    Value vectors = lanes.ceilDivIndex(length, step);
    Value last = lanes.subIndex(end, step);
    Value same = firstWhere(lanes, vectors, [&](Value i) {
      Value key =
          lanes.minIndex(lanes.addIndex(begin, lanes.mulIndex(i, step)), last);
      return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne,
                                       bitsAt(row, key, Bits::Unchanged), all);
    });
    return {equal(same, vectors)};
  };
  auto inOne = [&]() -> SmallVector<Value> {
    Value key =
        lanes.minIndex(begin, lanes.subIndex(attention.tile.keyEnd, step));
    Value bits =
        lanes.make<arith::ShRUIOp>(bitsAt(row, key, Bits::Unchanged),
                                   lanes.toI64(lanes.subIndex(begin, key)));
    Value limit = lanes.make<arith::ShLIOp>(lanes.i64(1), lanes.toI64(length));
    Value wanted = lanes.make<arith::SubIOp>(limit, lanes.i64(1));
    return {equal(lanes.make<arith::AndIOp>(bits, wanted), wanted)};
  };
  Value isLong =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, length, step);
  return lanes.ifElse(isLong, TypeRange(lanes.builder.getI1Type()), inVectors,
                      inOne)[0];
}

void VisibleKeys::narrowTile() {
  AttentionContext::Tile &tile = attention.tile;
  if (!hasSearch())
    return;
  RowBlock rows = rowsOfMask({tile.firstQuery, tile.queryEnd});
  Value keyEnd = tile.keyEnd, end = lanes.toI64(keyEnd);
  auto literal = [&](bool value) {
    return lanes.constant(lanes.builder.getBoolAttr(value));
  };
  auto searchRows = [&]() -> SmallVector<Value> {
    return lanes.loop(
        rows.first, rows.end, 1, {end, lanes.i64(0), literal(true)},
        [&](Value row, ValueRange before) -> SmallVector<Value> {
          Run run = search(row, before[2]);
          storeLimits(row, run);
          return {lanes.make<arith::MinSIOp>(before[0], lanes.toI64(run.begin)),
                  lanes.make<arith::MaxSIOp>(before[1], lanes.toI64(run.end)),
                  run.isWhole};
        });
  };
  auto takeAll = [&]() -> SmallVector<Value> {
    lanes.loop(rows.first, rows.end, 1, [&](Value row) {
      storeLimits(row, {lanes.index(0), keyEnd, Value()});
    });
    return {lanes.i64(0), end, literal(false)};
  };
  Value fits = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, keyEnd,
                                         lanes.index(width()));
  Type i64 = lanes.builder.getI64Type(), bit = lanes.builder.getI1Type();
  SmallVector<Value> found =
      lanes.ifElse(fits, {i64, i64, bit}, searchRows, takeAll);
  // Keys that are read in place have products in whole vectors.
  Value vector = lanes.index(attention.blocking.lanes);
  Value vectors = lanes.ceilDivIndex(toIndex(found[1]), vector);
  tile.keyEnd = lanes.minIndex(lanes.mulIndex(vectors, vector), keyEnd);
  tile.hasRuns = found[2];
  // Blocks of keys that are packed begin at multiples of their size, as the
  // footprint says.
  Value unit =
      lanes.index(attention.blocking.isStreamed() ? attention.blocking.lanes
                                                  : attention.blocking.keys);
  tile.firstKey = lanes.mulIndex(lanes.divIndex(toIndex(found[0]), unit), unit);
}

//===----------------------------------------------------------------------===//
// Its results
//===----------------------------------------------------------------------===//

/// Where the limits of a row are: rows that share a row of the mask share them.
Value VisibleKeys::slotOf(Value row) {
  if (isOneRow())
    return lanes.index(0);
  if (rowsAreQueries())
    return attention.queryOf(row);
  return lanes.subIndex(row, attention.tile.firstQuery);
}

Value VisibleKeys::loadLimit(Value row, bool isEnd) {
  Value memory = isEnd ? attention.scratch.ends : attention.scratch.begins;
  return toIndex(limits.loadScalar(memory, slotOf(row)));
}

void VisibleKeys::storeLimits(Value row, const Run &run) {
  Type i32 = lanes.builder.getI32Type();
  Value slot = slotOf(row);
  limits.store(lanes.make<arith::IndexCastOp>(i32, run.begin),
               attention.scratch.begins, slot);
  limits.store(lanes.make<arith::IndexCastOp>(i32, run.end),
               attention.scratch.ends, slot);
}

VisibleKeys::Bounds VisibleKeys::boundsOf(const RowBlock &rows) {
  Value keyEnd = attention.tile.keyEnd;
  Bounds bounds{keyEnd, keyEnd, lanes.index(0)};
  if (hasSearch()) {
    auto [first, end] = rowsOfMask(rows);
    Value most = lanes.toI64(keyEnd), none = lanes.i64(0);
    SmallVector<Value> found =
        lanes.loop(first, end, 1, {most, none, none},
                   [&](Value row, ValueRange before) -> SmallVector<Value> {
                     Value end = lanes.toI64(loadLimit(row, true));
                     Value begin = lanes.toI64(loadLimit(row, false));
                     return {lanes.make<arith::MinSIOp>(before[0], end),
                             lanes.make<arith::MaxSIOp>(before[1], end),
                             lanes.make<arith::MaxSIOp>(before[2], begin)};
                   });
    bounds = {toIndex(found[0]), toIndex(found[1]), toIndex(found[2])};
  }
  if (!attention.op.getCausal())
    return bounds;
  // Rows of several heads begin again with the first query.
  Value one = lanes.index(1);
  bool isOneHead = attention.blocking.group == 1;
  Value first = isOneHead ? lanes.addIndex(rows.first, one) : one;
  Value last = isOneHead ? rows.end : attention.queryCount;
  bounds.firstEnd = lanes.minIndex(bounds.firstEnd, first);
  bounds.lastEnd = lanes.minIndex(bounds.lastEnd, last);
  return bounds;
}

Value VisibleKeys::countFor(const RowBlock &rows, const KeyBlock &keys) {
  if (!hasSearch() && !attention.op.getCausal())
    return keys.count;
  return lanes.minIndex(keys.count,
                        lanes.subIndex(boundsOf(rows).lastEnd, keys.first));
}

void VisibleKeys::whereHidden(const RowBlock &rows, const KeyBlock &keys,
                              function_ref<void(Hidden)> body) {
  if (attention.seesAllKeys())
    return body(Hidden::None);
  bool isSearched = hasSearch();
  if (attention.op.getMask() && !isSearched)
    return body(Hidden::ByMask);
  auto emit = [&](Hidden hidden) {
    return [&body, hidden]() -> SmallVector<Value> {
      body(hidden);
      return {};
    };
  };
  Bounds bounds = boundsOf(rows);
  // Weights are made in whole steps.
  Value step = lanes.index(attention.blocking.keysOfStep());
  Value end = lanes.addIndex(
      keys.first, lanes.mulIndex(lanes.ceilDivIndex(keys.count, step), step));
  Value isSeen = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sle, end,
                                           bounds.firstEnd);
  auto seen = [&]() -> SmallVector<Value> {
    return lanes.ifElse(isSeen, TypeRange(), emit(Hidden::None),
                        emit(Hidden::AfterEnd));
  };
  if (!isSearched)
    return void(seen());
  Value hasBegun = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sle,
                                             bounds.lastBegin, keys.first);
  lanes.ifElse(lanes.make<arith::AndIOp>(attention.tile.hasRuns, hasBegun),
               TypeRange(), seen, emit(Hidden::ByMask));
}

Value VisibleKeys::endFor(Value row, Hidden hidden) {
  Value end = attention.tile.keyEnd;
  if (attention.op.getCausal())
    end = lanes.minIndex(
        end, lanes.addIndex(attention.queryOf(row), lanes.index(1)));
  if (hidden == Hidden::AfterEnd && hasSearch())
    end = lanes.minIndex(end, loadLimit(row, true));
  return end;
}

} // namespace kernels
} // namespace anabranch
