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

/// The values of so many keys are added without a loop.
static constexpr int64_t keysAtOnce = 4;

StreamedAttention::StreamedAttention(AttentionContext &attention)
    : BlockProducts(attention), packing(attention) {
  if (attention.blocking.usesDots)
    product.pairs = WordProduct::Pairs::Dot;
}

void StreamedAttention::begin() {
  clearScores();
  if (attention.blocking.usesDots)
    return packing.packQueries();
  BlockProducts::begin();
}

/// A vector of words of a key's head, from an element on.
Value StreamedAttention::keyWords(Value number, int64_t at) {
  Value key = attention.op.getKey();
  if (attention.blocking.usesDots)
    return packing.words(key, number, at);
  int64_t width = attention.blocking.lanes;
  Value depth = lanes.index(at);
  LaneBuilder::MaskGuard guard(
      lanes, width, attention.headMask(AttentionContext::headSize(key), depth));
  return lanes.vector(attention.element(key, Lanes::uniform(number),
                                        Lanes::linear(depth, 1, width)));
}

/// A vector of columns of the values that belong to a word's keys.
Value StreamedAttention::valueWords(const AttentionContext::KeyBlock &keys,
                                    Value word, int64_t at, bool whole) {
  if (attention.blocking.usesDots)
    return packing.valuePairs(keys, word, at, whole);
  Value value = attention.op.getValue();
  int64_t width = attention.blocking.lanes;
  Value key = lanes.addIndex(keys.first, word), column = lanes.index(at);
  attention.placeRows(value, key);
  LaneBuilder::MaskGuard guard(
      lanes, width,
      attention.headMask(AttentionContext::headSize(value), column));
  return lanes.vector(attention.element(value, Lanes::uniform(key),
                                        Lanes::linear(column, 1, width)));
}

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

/// The scores of a vector of keys. `group` is the first key's number in its
/// block.
void StreamedAttention::scoreKeys(Value group, ArrayRef<Value> keys) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  int64_t width = blocking.lanes;
  attention.placeRows(attention.op.getKey(), keys);
  lanes.loop(lanes.index(0), lanes.index(blocking.rows), 1, [&](Value row) {
    SmallVector<Value> sums(keys.size(), memory.zeroVector());
    Value start = lanes.mulIndex(row, lanes.index(blocking.head / perWord()));
    SmallVector<Value> query;
    for (int64_t at = 0; at < blocking.head; at += width * perWord())
      query.push_back(memory.loadVector(
          scratch.queries, lanes.addIndex(start, lanes.index(at / perWord()))));
    for (size_t key = 0; key < keys.size(); ++key) {
      keepOrder(lanes);
      for (size_t part = 0; part < query.size(); ++part) {
        Value words = keyWords(keys[key], int64_t(part) * width * perWord());
        sums[key] = product.add(lanes, sums[key], {query[part]}, {words});
      }
    }
    Value at =
        lanes.addIndex(lanes.mulIndex(row, lanes.index(blocking.keys)), group);
    memory.store(addTransposed(lanes, sums), scratch.scores, at);
  });
}

/// Computes all columns at once, so that values are read in order, with as many
/// rows side by side as registers hold.
void StreamedAttention::mix(const AttentionContext::RowBlock &,
                            const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  // Registers hold so many vectors of sums, beside the values.
  int64_t most = (attention.function.target.avx512 ? 24 : 8) * blocking.lanes;
  int64_t columns = std::min(blocking.valueHead, most);
  int64_t passes = llvm::divideCeil(blocking.rows, most / columns);
  int64_t rows = llvm::divideCeil(blocking.rows, passes);
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
  int64_t wordsAtOnce = keysAtOnce / perWord();
  Value words = lanes.divIndex(keys.count, lanes.index(perWord()));
  Value several =
      lanes.subIndex(words, lanes.remIndex(words, lanes.index(wordsAtOnce)));
  sums = lanes.loop(lanes.index(0), several, wordsAtOnce, sums,
                    [&](Value word, ValueRange before) {
                      SmallVector<Value> after(before);
                      for (int64_t i = 0; i < wordsAtOnce; ++i)
                        after = mixWord(part, keys,
                                        lanes.addIndex(word, lanes.index(i)),
                                        /*whole=*/true, after);
                      return after;
                    });
  Value end = lanes.ceilDivIndex(keys.count, lanes.index(perWord()));
  sums = lanes.loop(several, end, 1, sums, [&](Value word, ValueRange before) {
    return mixWord(part, keys, word, /*whole=*/false, before);
  });
  for (auto [place, sum] : llvm::zip(places, sums))
    memory.store(sum, output, place);
}

SmallVector<Value>
StreamedAttention::mixWord(const Part &part,
                           const AttentionContext::KeyBlock &keys, Value word,
                           bool whole, ValueRange before) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  SmallVector<Value> values, after;
  keepOrder(lanes);
  for (int64_t at = part.firstColumn; at < part.endColumn; at += blocking.lanes)
    values.push_back(valueWords(keys, word, at, whole));
  Value from = blocking.usesDots ? scratch.weights : scratch.scores;
  for (int64_t i = 0; i < part.rows; ++i) {
    Value row = lanes.addIndex(part.firstRow, lanes.index(i));
    Value start = lanes.mulIndex(row, lanes.index(blocking.keys / perWord()));
    Value weight = memory.loadScalar(from, lanes.addIndex(start, word));
    Value weights =
        lanes.make<vector::BroadcastOp>(memory.vectorType(), weight);
    for (Value column : values)
      after.push_back(
          product.add(lanes, before[after.size()], {weights}, {column}));
  }
  return after;
}

} // namespace codegen
} // namespace anabranch
