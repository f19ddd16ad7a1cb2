//===- AttentionFew.cpp - attention of few queries ------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Where a token is decoded, each key and value is used for a query or a few:
// they are read where they lie, since a copy would cost more than the products,
// and reading them once is nearly all the time there is. Processors fetch ahead
// what is read in a row, so the blocks of keys are large: a change from keys to
// values is a stop.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/AttentionEmitter.h"

#include "codegen/emit/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// Keys whose values are added without a loop.
static constexpr int64_t keysAtOnce = 4;

/// scores = queries * keys^T for a block of keys, a vector of keys at a time.
void AttentionEmitter::scoreFew(Value firstKey, Value count) {
  auto key = cast<RankedTensorType>(op.getKey().getType());
  int64_t keys = key.getShape().end()[-2];
  Value rest = lanes.remIndex(count, lanes.index(t.lanes));
  Value whole = lanes.subIndex(count, rest);
  lanes.loop(lanes.index(0), whole, t.lanes, [&](Value group) {
    SmallVector<Value> each;
    for (int64_t i = 0; i < t.lanes; ++i)
      each.push_back(
          lanes.addIndex(lanes.addIndex(firstKey, group), lanes.index(i)));
    scoreKeys(group, each);
  });
  if (!op.getCausal() && !ShapedType::isDynamic(keys) && keys % t.lanes == 0)
    return;
  Value hasRest =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, rest, lanes.index(0));
  lanes.ifThen(hasRest, [&] {
    scoreKeys(whole, keysFrom(lanes.addIndex(firstKey, whole)));
  });
}

/// The scores of a vector of keys, the first of which is `group` in its block.
void AttentionEmitter::scoreKeys(Value group, ArrayRef<Value> keys) {
  int64_t size =
      cast<RankedTensorType>(op.getKey().getType()).getShape().back();
  lanes.loop(lanes.index(0), lanes.index(t.rows), 1, [&](Value row) {
    SmallVector<Value> sums(t.lanes);
    Value start = lanes.mulIndex(row, lanes.index(t.head));
    for (int64_t at = 0; at < t.head; at += t.lanes) {
      Value depth = lanes.index(at);
      Value left = loadVector(queries, lanes.addIndex(start, depth));
      LaneBuilder::MaskGuard guard(lanes, t.lanes, headMask(size, depth));
      for (auto [sum, number] : llvm::zip(sums, keys)) {
        Value key = lanes.vector(element(op.getKey(), Lanes::uniform(number),
                                         Lanes::linear(depth, 1, t.lanes)));
        sum = sum ? lanes.make<vector::FMAOp>(left, key, sum)
                  : lanes.make<arith::MulFOp>(left, key);
      }
    }
    Value at = lanes.addIndex(lanes.mulIndex(row, lanes.index(t.keys)), group);
    storeValue(addTransposed(lanes, sums), scores, at);
  });
}

/// output += scores * values for `count` keys, with the output in registers.
void AttentionEmitter::mixFew(Value firstKey, Value count) {
  // Registers hold so many vectors of sums beside the values.
  int64_t most = (frame.target.avx512 ? 16 : 8) * t.lanes;
  int64_t columns = std::min(t.valueHead, most);
  int64_t rows = most / columns;
  int64_t rest = t.rows % rows;
  for (int64_t column = 0; column < t.valueHead; column += columns) {
    Range range = {column, std::min(column + columns, t.valueHead)};
    lanes.loop(lanes.index(0), lanes.index(t.rows - rest), rows,
               [&](Value row) { mixRows(row, rows, range, firstKey, count); });
    if (rest)
      mixRows(lanes.index(t.rows - rest), rest, range, firstKey, count);
  }
}

/// The same for some rows and columns.
void AttentionEmitter::mixRows(Value firstRow, int64_t rows, Range columns,
                               Value firstKey, Value count) {
  SmallVector<Value> places, sums;
  for (int64_t row = 0; row < rows; ++row) {
    Value start = lanes.mulIndex(lanes.addIndex(firstRow, lanes.index(row)),
                                 lanes.index(t.valueHead));
    for (int64_t at = columns.first; at < columns.second; at += t.lanes)
      places.push_back(lanes.addIndex(start, lanes.index(at)));
  }
  for (Value place : places)
    sums.push_back(loadVector(output, place));
  auto mix = [&](Value number, int64_t keys, ValueRange before) {
    SmallVector<Value> after(before);
    for (int64_t i = 0; i < keys; ++i)
      after = mixKey(firstRow, rows, columns, firstKey,
                     lanes.addIndex(number, lanes.index(i)), after);
    return after;
  };
  Value rest = lanes.remIndex(count, lanes.index(keysAtOnce));
  Value whole = lanes.subIndex(count, rest);
  sums = lanes.loop(lanes.index(0), whole, keysAtOnce, sums,
                    [&](Value number, ValueRange before) {
                      return mix(number, keysAtOnce, before);
                    });
  sums =
      lanes.loop(whole, count, 1, sums, [&](Value number, ValueRange before) {
        return mix(number, 1, before);
      });
  for (auto [place, sum] : llvm::zip(places, sums))
    storeValue(sum, output, place);
}

/// The sums of some rows and columns after one more key of the block.
SmallVector<Value> AttentionEmitter::mixKey(Value firstRow, int64_t rows,
                                            Range columns, Value firstKey,
                                            Value number, ValueRange before) {
  int64_t size =
      cast<RankedTensorType>(op.getValue().getType()).getShape().back();
  auto type = VectorType::get({t.lanes}, t.element);
  Value key = lanes.addIndex(firstKey, number);
  SmallVector<Value> values, after;
  for (int64_t at = columns.first; at < columns.second; at += t.lanes) {
    Value column = lanes.index(at);
    LaneBuilder::MaskGuard guard(lanes, t.lanes, headMask(size, column),
                                 /*maybeEmpty=*/true);
    values.push_back(lanes.vector(element(op.getValue(), Lanes::uniform(key),
                                          Lanes::linear(column, 1, t.lanes))));
  }
  for (int64_t i = 0; i < rows; ++i) {
    Value row = lanes.addIndex(firstRow, lanes.index(i));
    Value start = lanes.mulIndex(row, lanes.index(t.keys));
    Value weight = loadScalar(scores, lanes.addIndex(start, number));
    Value weights = lanes.make<vector::BroadcastOp>(type, weight);
    for (Value value : values)
      after.push_back(
          lanes.make<vector::FMAOp>(weights, value, before[after.size()]));
  }
  return after;
}

} // namespace codegen
} // namespace anabranch
