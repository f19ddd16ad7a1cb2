//===- PairPacking.cpp - operands as pairs of bf16 ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/PairPacking.h"

#include "kernels/emit/Memory.h"
#include "kernels/emit/Transpose.h"
#include "kernels/microkernel/FloatParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Shuffles the lanes of two vectors of half words into words.
static Value toWords(LaneBuilder &lanes, Type wordVector, Value a, Value b,
                     ArrayRef<int64_t> order) {
  Value both = lanes.make<vector::ShuffleOp>(a, b, order);
  return lanes.make<LLVM::BitcastOp>(wordVector, both);
}

/// A vector of elements of 16 bits each, with zeros after the head.
Value PairPacking::halves(Value tensor, Value row, int64_t column) {
  int64_t width = attention.blocking.lanes;
  int64_t size = AttentionContext::headSize(tensor);
  auto type = VectorType::get({width}, lanes.builder.getI16Type());
  if (column >= size)
    return lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(type)));
  Value at = lanes.index(column);
  LaneBuilder::MaskGuard guard(lanes, width, attention.headMask(size, at));
  Lanes element = attention.evaluator->evaluate(
      tensor, attention.position(tensor, Lanes::uniform(row),
                                 Lanes::linear(at, 1, width)));
  return castBits(lanes, lanes.vector(element), lanes.builder.getI16Type());
}

/// A vector of floats, with zeros after the head.
Value PairPacking::floats(Value tensor, Value row, int64_t column) {
  int64_t width = attention.blocking.lanes;
  int64_t size = AttentionContext::headSize(tensor);
  if (column >= size)
    return attention.vector(0);
  Value at = lanes.index(column);
  LaneBuilder::MaskGuard guard(lanes, width, attention.headMask(size, at));
  return lanes.vector(attention.element(tensor, Lanes::uniform(row),
                                        Lanes::linear(at, 1, width)));
}

Value PairPacking::words(Value tensor, Value row, int64_t column) {
  SmallVector<int64_t> order(2 * attention.blocking.lanes);
  std::iota(order.begin(), order.end(), 0);
  return toWords(lanes, memory.vectorType(), halves(tensor, row, column),
                 halves(tensor, row, column + attention.blocking.lanes), order);
}

/// A vector of columns of a key's value.
Value PairPacking::valueRow(Value key, int64_t column) {
  Value tensor = attention.op.getValue();
  attention.placeRows(tensor, key);
  return attention.blocking.hasParts() ? floats(tensor, key, column)
                                       : halves(tensor, key, column);
}

/// A vector of columns of a block's value, or zeros if the block has fewer.
Value PairPacking::countedRow(const AttentionContext::KeyBlock &keys,
                              Value number, int64_t column) {
  Value last = lanes.subIndex(attention.keyCount, lanes.index(1));
  Value key = lanes.minIndex(lanes.addIndex(keys.first, number), last);
  Value row = valueRow(key, column);
  Value zero =
      lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(row.getType())));
  Value exists =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, number, keys.count);
  return lanes.make<arith::SelectOp>(exists, row, zero);
}

Value PairPacking::valuePairs(const AttentionContext::KeyBlock &keys,
                              Value word, int64_t column, Pair pair) {
  int64_t width = attention.blocking.lanes;
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < width; ++i)
    order.append({i, i + width});
  Value first = lanes.mulIndex(word, lanes.index(perWord));
  Value second = lanes.addIndex(first, lanes.index(1));
  auto row = [&](Value number) {
    return pair == Pair::Counted
               ? countedRow(keys, number, column)
               : valueRow(lanes.addIndex(keys.first, number), column);
  };
  Value low = row(first);
  Value high = pair != Pair::First
                   ? row(second)
                   : lanes.constant(cast<TypedAttr>(
                         lanes.builder.getZeroAttr(low.getType())));
  return toWords(lanes, memory.vectorType(), low, high, order);
}

void PairPacking::storeParts(Value low, Value high, Value to, Value at,
                             int64_t partWords) {
  kernels::storeParts(lanes, memory,
                      splitToParts(lanes, low, high, attention.blocking.parts),
                      to, at, partWords * memory.elementBytes());
}

void PairPacking::storeWeights(Value low, Value high, Value place) {
  storeParts(low, high, attention.scratch.weights,
             lanes.divIndex(place, lanes.index(perWord)),
             attention.blocking.weightWords());
}

/// Stores a vector of words of a query's head.
void PairPacking::storeQueryWords(Value row, int64_t column, Value at) {
  Value query = attention.op.getQuery(), to = attention.scratch.queries;
  if (!attention.blocking.hasParts())
    return memory.store(words(query, row, column), to, at);
  Value scale = attention.vector(attention.op.getScale().convertToDouble());
  auto scaled = [&](int64_t from) -> Value {
    return lanes.make<arith::MulFOp>(floats(query, row, from), scale);
  };
  storeParts(scaled(column), scaled(column + attention.blocking.lanes), to, at,
             attention.blocking.queryWords());
}

void PairPacking::packQueries() {
  int64_t head = attention.blocking.head;
  int64_t step = perWord * attention.blocking.lanes;
  Value first = attention.tile.firstQuery;
  lanes.loop(first, attention.tile.queryEnd, 1, [&](Value row) {
    Value start =
        lanes.mulIndex(lanes.subIndex(row, first), lanes.index(head / perWord));
    for (int64_t at = 0; at < head; at += step)
      storeQueryWords(row, at,
                      lanes.addIndex(start, lanes.index(at / perWord)));
  });
}

/// Stores the words of so many keys as a vector has lanes: rows are transposed
/// to columns.
void PairPacking::storeKeyWords(ArrayRef<Value> rows, int64_t column,
                                Value at) {
  LaneBuilder::Scope scope(lanes);
  Value key = attention.op.getKey(), to = attention.scratch.keys;
  auto columnsOf = [&](llvm::function_ref<Value(Value row)> load) {
    return transpose(lanes, llvm::map_to_vector(rows, load));
  };
  auto place = [&](size_t word) {
    return lanes.addIndex(at, lanes.index(int64_t(word) * keyColumns()));
  };
  if (!attention.blocking.hasParts()) {
    auto columns =
        columnsOf([&](Value row) { return words(key, row, column); });
    for (auto [i, vector] : llvm::enumerate(columns))
      memory.store(vector, to, place(i));
    return;
  }
  auto low = columnsOf([&](Value row) { return floats(key, row, column); });
  auto high = columnsOf([&](Value row) {
    return floats(key, row, column + attention.blocking.lanes);
  });
  for (size_t i = 0; i < low.size(); ++i)
    storeParts(low[i], high[i], to, place(i), attention.blocking.keyWords());
}

/// Stores the words of two keys at a time, two words of each. LLVM would load
/// all columns first.
void PairPacking::storeKeyMatrices(ArrayRef<Value> rows, int64_t column,
                                   Value at) {
  LaneBuilder::Scope scope(lanes);
  keepOrder(lanes);
  Value key = attention.op.getKey();
  int64_t width = attention.blocking.lanes, side = MatrixBlock::words;
  for (int64_t row = 0; row < width; row += side) {
    Value first = words(key, rows[row], column);
    Value second = words(key, rows[row + 1], column);
    for (int64_t word = 0; word < width; word += side)
      memory.store(
          lanes.make<vector::ShuffleOp>(first, second,
                                        ArrayRef<int64_t>{word, word + 1,
                                                          width + word,
                                                          width + word + 1}),
          attention.scratch.keys,
          lanes.addIndex(at, lanes.index(word * keyColumns() + row * side)));
  }
}

void PairPacking::packKeys(const AttentionContext::KeyBlock &keys,
                           Value count) {
  const AttentionBlocking &blocking = attention.blocking;
  int64_t columns = keyColumns(), step = perWord * blocking.lanes;
  Value width = lanes.index(columns);
  lanes.loop(lanes.index(0), count, blocking.lanes, [&](Value group) {
    SmallVector<Value> rows =
        attention.keysFrom(lanes.addIndex(keys.first, group));
    Value panel =
        lanes.mulIndex(lanes.divIndex(group, width),
                       lanes.index(blocking.head / perWord * columns));
    Value column = lanes.mulIndex(lanes.remIndex(group, width),
                                  lanes.index(blocking.wordsAtOnce()));
    Value start = lanes.addIndex(panel, column);
    attention.placeRows(attention.op.getKey(), rows);
    for (int64_t at = 0; at < blocking.head; at += step) {
      Value place = lanes.addIndex(start, lanes.index(at / perWord * columns));
      if (blocking.usesMatrices)
        storeKeyMatrices(rows, at, place);
      else
        storeKeyWords(rows, at, place);
    }
  });
}

/// Stores a vector of columns of the values of the keys of a word, or of two
/// words that are neighbours.
void PairPacking::storeValueWords(const AttentionContext::KeyBlock &keys,
                                  Value word, int64_t column, Value at) {
  const AttentionBlocking &blocking = attention.blocking;
  Value to = attention.scratch.values;
  if (blocking.usesMatrices) {
    keepOrder(lanes);
    Value first = valuePairs(keys, word, column);
    Value second =
        valuePairs(keys, lanes.addIndex(word, lanes.index(1)), column);
    int64_t width = blocking.lanes;
    for (int64_t from : {int64_t(0), width / 2})
      memory.store(lanes.make<vector::ShuffleOp>(
                       first, second,
                       ArrayRef<int64_t>{from, width + from, from + 1,
                                         width + from + 1}),
                   to, lanes.addIndex(at, lanes.index(2 * from)));
    return;
  }
  if (!blocking.hasParts())
    return memory.store(valuePairs(keys, word, column), to, at);
  Value width = lanes.index(blocking.lanes);
  Value number = lanes.subIndex(lanes.mulIndex(word, lanes.index(perWord)),
                                lanes.remIndex(word, width));
  auto row = [&](Value of) { return countedRow(keys, of, column); };
  storeParts(row(number), row(lanes.addIndex(number, width)), to, at,
             blocking.valueWords());
}

void PairPacking::packValues(const AttentionContext::KeyBlock &keys,
                             Value words) {
  const AttentionBlocking &blocking = attention.blocking;
  int64_t columns = valueColumns(), side = blocking.wordsAtOnce();
  lanes.loop(lanes.index(0), words, side, [&](Value word) {
    for (int64_t at = 0; at < blocking.valueHead; at += blocking.lanes) {
      int64_t panel = at / columns * columns * blocking.keys / perWord;
      storeValueWords(keys, word, at,
                      lanes.addIndex(lanes.mulIndex(word, lanes.index(columns)),
                                     lanes.index(panel + at % columns * side)));
    }
  });
}

} // namespace kernels
} // namespace anabranch
