//===- StreamedAttention.cpp - attention of few queries -------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/StreamedAttention.h"

#include "codegen/emit/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// Keys whose values are added without a loop.
static constexpr int64_t keysAtOnce = 4;

void StreamedAttention::score(const AttentionContext::RowBlock &,
                              const AttentionContext::KeyBlock &keys) {
  int64_t width = attention.blocking.lanes;
  auto type = cast<RankedTensorType>(attention.op.getKey().getType());
  int64_t all = type.getShape().end()[-2];
  Value rest = lanes.remIndex(keys.count, lanes.index(width));
  Value whole = lanes.subIndex(keys.count, rest);
  lanes.loop(lanes.index(0), whole, width, [&](Value group) {
    SmallVector<Value> each;
    for (int64_t i = 0; i < width; ++i)
      each.push_back(
          lanes.addIndex(lanes.addIndex(keys.first, group), lanes.index(i)));
    scoreKeys(group, each);
  });
  if (!attention.op.getCausal() && !ShapedType::isDynamic(all) &&
      all % width == 0)
    return;
  Value hasRest =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, rest, lanes.index(0));
  lanes.ifThen(hasRest, [&] {
    scoreKeys(whole, attention.keysFrom(lanes.addIndex(keys.first, whole)));
  });
}

/// The scores of a vector of keys, the first of which is `group` in its block.
void StreamedAttention::scoreKeys(Value group, ArrayRef<Value> keys) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value key = attention.op.getKey();
  int64_t width = blocking.lanes, size = AttentionContext::headSize(key);
  lanes.loop(lanes.index(0), lanes.index(blocking.rows), 1, [&](Value row) {
    SmallVector<Value> sums(width);
    Value start = lanes.mulIndex(row, lanes.index(blocking.head));
    for (int64_t at = 0; at < blocking.head; at += width) {
      Value depth = lanes.index(at);
      Value left =
          memory.loadVector(scratch.queries, lanes.addIndex(start, depth));
      LaneBuilder::MaskGuard guard(lanes, width,
                                   attention.headMask(size, depth));
      for (auto [sum, number] : llvm::zip(sums, keys)) {
        Value right = lanes.vector(attention.element(
            key, Lanes::uniform(number), Lanes::linear(depth, 1, width)));
        sum = sum ? lanes.make<vector::FMAOp>(left, right, sum)
                  : lanes.make<arith::MulFOp>(left, right);
      }
    }
    Value at =
        lanes.addIndex(lanes.mulIndex(row, lanes.index(blocking.keys)), group);
    memory.store(addTransposed(lanes, sums), scratch.scores, at);
  });
}

void StreamedAttention::mix(const AttentionContext::RowBlock &,
                            const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  // Registers hold so many vectors of sums beside the values.
  int64_t most = (attention.frame.target.avx512 ? 16 : 8) * blocking.lanes;
  int64_t columns = std::min(blocking.valueHead, most);
  int64_t rows = most / columns;
  int64_t rest = blocking.rows % rows;
  Value whole = lanes.index(blocking.rows - rest);
  for (int64_t column = 0; column < blocking.valueHead; column += columns) {
    int64_t end = std::min(column + columns, blocking.valueHead);
    lanes.loop(lanes.index(0), whole, rows,
               [&](Value row) { mixPart({row, rows, column, end}, keys); });
    if (rest)
      mixPart({whole, rest, column, end}, keys);
  }
}

void StreamedAttention::mixPart(const Part &part,
                                const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  Value output = attention.scratch.output;
  SmallVector<Value> places, sums;
  for (int64_t row = 0; row < part.rows; ++row) {
    Value start =
        lanes.mulIndex(lanes.addIndex(part.firstRow, lanes.index(row)),
                       lanes.index(blocking.valueHead));
    for (int64_t at = part.firstColumn; at < part.endColumn;
         at += blocking.lanes)
      places.push_back(lanes.addIndex(start, lanes.index(at)));
  }
  for (Value place : places)
    sums.push_back(memory.loadVector(output, place));
  auto mixKeys = [&](Value number, int64_t count, ValueRange before) {
    SmallVector<Value> after(before);
    for (int64_t i = 0; i < count; ++i)
      after = mixKey(part, keys.first, lanes.addIndex(number, lanes.index(i)),
                     after);
    return after;
  };
  Value rest = lanes.remIndex(keys.count, lanes.index(keysAtOnce));
  Value whole = lanes.subIndex(keys.count, rest);
  sums = lanes.loop(lanes.index(0), whole, keysAtOnce, sums,
                    [&](Value number, ValueRange before) {
                      return mixKeys(number, keysAtOnce, before);
                    });
  sums = lanes.loop(whole, keys.count, 1, sums,
                    [&](Value number, ValueRange before) {
                      return mixKeys(number, 1, before);
                    });
  for (auto [place, sum] : llvm::zip(places, sums))
    memory.store(sum, output, place);
}

/// The sums of a part after one more key of the block.
SmallVector<Value> StreamedAttention::mixKey(const Part &part, Value firstKey,
                                             Value number, ValueRange before) {
  const AttentionBlocking &blocking = attention.blocking;
  Value value = attention.op.getValue();
  int64_t width = blocking.lanes, size = AttentionContext::headSize(value);
  Lanes key = Lanes::uniform(lanes.addIndex(firstKey, number));
  SmallVector<Value> values, after;
  for (int64_t at = part.firstColumn; at < part.endColumn; at += width) {
    Value column = lanes.index(at);
    LaneBuilder::MaskGuard guard(lanes, width, attention.headMask(size, column),
                                 /*maybeEmpty=*/true);
    values.push_back(lanes.vector(
        attention.element(value, key, Lanes::linear(column, 1, width))));
  }
  for (int64_t i = 0; i < part.rows; ++i) {
    Value row = lanes.addIndex(part.firstRow, lanes.index(i));
    Value start = lanes.mulIndex(row, lanes.index(blocking.keys));
    Value weight = memory.loadScalar(attention.scratch.scores,
                                     lanes.addIndex(start, number));
    Value weights =
        lanes.make<vector::BroadcastOp>(memory.vectorType(), weight);
    for (Value column : values)
      after.push_back(
          lanes.make<vector::FMAOp>(weights, column, before[after.size()]));
  }
  return after;
}

} // namespace codegen
} // namespace anabranch
