//===- StreamedAttention.cpp - attention of few queries -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/StreamedAttention.h"

#include "kernels/emit/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

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
                                    Value word, int64_t at,
                                    PairPacking::Pair pair) {
  if (attention.blocking.usesDots)
    return packing.valuePairs(keys, word, at, pair);
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

/// Sums of so many keys with all rows fill the vectors whose lanes are added
/// together: a power of two.
int64_t StreamedAttention::keysOfSums() const {
  const AttentionBlocking &blocking = attention.blocking;
  return std::max<int64_t>(
      1, llvm::bit_floor(uint64_t(blocking.lanes) / uint64_t(blocking.rows)));
}

void StreamedAttention::score(const AttentionContext::RowBlock &,
                              const AttentionContext::KeyBlock &keys) {
  int64_t step = keysOfSums();
  auto type = cast<RankedTensorType>(attention.op.getKey().getType());
  int64_t all = type.getShape().end()[-2];
  Value rest = lanes.remIndex(keys.count, lanes.index(step));
  Value whole = lanes.subIndex(keys.count, rest);
  lanes.loop(lanes.index(0), whole, step, [&](Value group) {
    SmallVector<Value> each;
    for (int64_t i = 0; i < step; ++i)
      each.push_back(
          lanes.addIndex(lanes.addIndex(keys.first, group), lanes.index(i)));
    scoreKeys(group, each);
  });
  if (!attention.op.getCausal() && !ShapedType::isDynamic(all) &&
      all % attention.blocking.lanes == 0)
    return;
  Value hasRest =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, rest, lanes.index(0));
  lanes.ifThen(hasRest, [&] {
    SmallVector<Value> last =
        attention.keysFrom(lanes.addIndex(keys.first, whole));
    scoreKeys(whole, ArrayRef(last).take_front(step));
  });
}

/// A vector of words of a row's query.
Value StreamedAttention::queryWords(int64_t row, int64_t part) {
  const AttentionBlocking &blocking = attention.blocking;
  int64_t at = row * blocking.head / perWord() + part * blocking.lanes;
  return memory.loadVector(attention.scratch.queries, lanes.index(at));
}

/// The scores of some keys with all rows. Each key is read once, and one after
/// the other. `group` is the first key's number in its block.
void StreamedAttention::scoreKeys(Value group, ArrayRef<Value> keys) {
  const AttentionBlocking &blocking = attention.blocking;
  int64_t parts = blocking.head / (blocking.lanes * perWord());
  auto count = static_cast<int64_t>(keys.size());
  attention.placeRows(attention.op.getKey(), keys);
  SmallVector<Value> sums(
      blocking.lanes * llvm::divideCeil(blocking.rows * count, blocking.lanes),
      memory.zeroVector());
  // Half of the registers hold sums.
  bool holdsQueries = blocking.rows * parts <= blocking.lanes / 2;
  SmallVector<Value> queries;
  for (int64_t i = 0; holdsQueries && i < blocking.rows * parts; ++i)
    queries.push_back(queryWords(i / parts, i % parts));
  for (auto [number, key] : llvm::enumerate(keys)) {
    keepOrder(lanes);
    for (int64_t part = 0; part < parts; ++part) {
      Value words = keyWords(key, part * blocking.lanes * perWord());
      for (int64_t row = 0; row < blocking.rows; ++row) {
        Value query =
            holdsQueries ? queries[row * parts + part] : queryWords(row, part);
        Value &sum = sums[row * count + int64_t(number)];
        sum = product.add(lanes, sum, {query}, {words});
      }
    }
  }
  storeScores(sums, count, group);
}

/// Adds the lanes of each sum, and stores `count` scores of each row.
void StreamedAttention::storeScores(ArrayRef<Value> sums, int64_t count,
                                    Value group) {
  const AttentionBlocking &blocking = attention.blocking;
  Value scores = attention.scratch.scores;
  if (count == blocking.lanes)
    return memory.store(addTransposed(lanes, sums), scores, group);
  for (int64_t first = 0; first < blocking.rows * count;
       first += blocking.lanes) {
    Value vector = addTransposed(lanes, sums.slice(first, blocking.lanes));
    for (int64_t row = first / count;
         row < std::min(blocking.rows, (first + blocking.lanes) / count);
         ++row) {
      // The row's lanes are where the vector would begin at its first key.
      int64_t lane = row * count - first;
      SmallVector<bool> mask(blocking.lanes, false);
      std::fill_n(mask.begin() + lane, count, true);
      Value place =
          lanes.addIndex(group, lanes.index(row * blocking.keys - lane));
      memory.storeMasked(
          vector, scores, place,
          lanes.constant(DenseElementsAttr::get(
              VectorType::get({blocking.lanes}, lanes.builder.getI1Type()),
              ArrayRef<bool>(mask))));
    }
  }
}

/// Computes all columns at once, so that values are read in order, with as many
/// rows side by side as registers hold.
void StreamedAttention::mix(const AttentionContext::RowBlock &,
                            const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  // Registers hold so many vectors of sums, beside the values.
  constexpr int64_t otherRegisters = 8;
  int64_t most =
      (lanes.isa.vectorRegisters() - otherRegisters) * blocking.lanes;
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
                                        PairPacking::Pair::Both, after);
                      return after;
                    });
  sums =
      lanes.loop(several, words, 1, sums, [&](Value word, ValueRange before) {
        return mixWord(part, keys, word, PairPacking::Pair::Both, before);
      });
  if (perWord() > 1)
    sums = mixLastKey(part, keys, words, sums);
  for (auto [place, sum] : llvm::zip(places, sums))
    memory.store(sum, output, place);
}

/// Adds the value of a key that is alone in the block's last word.
SmallVector<Value>
StreamedAttention::mixLastKey(const Part &part,
                              const AttentionContext::KeyBlock &keys,
                              Value word, ValueRange before) {
  Value isAlone = lanes.make<arith::CmpIOp>(
      arith::CmpIPredicate::ne,
      lanes.remIndex(keys.count, lanes.index(perWord())), lanes.index(0));
  return lanes.ifElse(
      isAlone, TypeRange(before),
      [&] {
        return mixWord(part, keys, word, PairPacking::Pair::First, before);
      },
      [&] { return SmallVector<Value>(before); });
}

/// How many vectors of values registers hold beside the part's sums and one
/// weight of each row.
int64_t StreamedAttention::valuesAtOnce(const Part &part) const {
  int64_t columns = part.endColumn - part.firstColumn;
  int64_t vectors = columns / attention.blocking.lanes;
  int64_t beside = lanes.isa.vectorRegisters() - part.rows * vectors;
  // Where all values are held, a weight lives for its own row alone.
  if (vectors < beside)
    return vectors;
  int64_t turns =
      llvm::divideCeil(vectors, std::max<int64_t>(beside - part.rows, 1));
  return llvm::divideCeil(vectors, turns);
}

/// The weights of a row for the keys of a word, in all lanes.
Value StreamedAttention::weightsOf(Value row, Value word) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value from = blocking.usesDots ? scratch.weights : scratch.scores;
  Value start = lanes.mulIndex(row, lanes.index(blocking.keys / perWord()));
  Value weight = memory.loadScalar(from, lanes.addIndex(start, word));
  return lanes.make<vector::BroadcastOp>(memory.vectorType(), weight);
}

SmallVector<Value>
StreamedAttention::mixWord(const Part &part,
                           const AttentionContext::KeyBlock &keys, Value word,
                           PairPacking::Pair pair, ValueRange before) {
  int64_t width = attention.blocking.lanes;
  int64_t columns = (part.endColumn - part.firstColumn) / width;
  int64_t most = valuesAtOnce(part);
  SmallVector<Value> weights(part.rows), after(before);
  for (int64_t first = 0; first < columns; first += most) {
    int64_t end = std::min(first + most, columns);
    SmallVector<Value> values;
    keepOrder(lanes);
    for (int64_t at = first; at < end; ++at)
      values.push_back(
          valueWords(keys, word, part.firstColumn + at * width, pair));
    for (int64_t i = 0; i < part.rows; ++i) {
      Value row = lanes.addIndex(part.firstRow, lanes.index(i));
      if (!weights[i])
        weights[i] = weightsOf(row, word);
      for (int64_t at = first; at < end; ++at) {
        Value &sum = after[i * columns + at];
        sum = product.add(lanes, sum, {weights[i]}, {values[at - first]});
      }
    }
  }
  return after;
}

} // namespace kernels
} // namespace anabranch
