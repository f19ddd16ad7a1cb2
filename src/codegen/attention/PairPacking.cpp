//===- PairPacking.cpp - operands as pairs of bf16 ------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/PairPacking.h"

#include "codegen/emit/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;

namespace anabranch {
namespace codegen {

/// Shuffles the lanes of two vectors of half words into words.
static Value toWords(LaneBuilder &lanes, Type wordVector, Value a, Value b,
                     ArrayRef<int64_t> order) {
  Value both = lanes.make<vector::ShuffleOp>(a, b, order);
  return lanes.make<LLVM::BitcastOp>(wordVector, both);
}

/// A vector of elements of 16 bits each, with zeros behind the head.
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

Value PairPacking::words(Value tensor, Value row, int64_t column) {
  SmallVector<int64_t> order(2 * attention.blocking.lanes);
  std::iota(order.begin(), order.end(), 0);
  return toWords(lanes, memory.vectorType(), halves(tensor, row, column),
                 halves(tensor, row, column + attention.blocking.lanes), order);
}

Value PairPacking::valuePairs(const AttentionContext::KeyBlock &keys,
                              Value word, int64_t column, bool whole) {
  int64_t width = attention.blocking.lanes;
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < width; ++i)
    order.append({i, i + width});
  Value last = lanes.subIndex(attention.keyCount, lanes.index(1));
  SmallVector<Value> rows;
  for (int64_t i = 0; i < perWord; ++i) {
    Value number = lanes.addIndex(lanes.mulIndex(word, lanes.index(perWord)),
                                  lanes.index(i));
    Value key = lanes.addIndex(keys.first, number);
    if (!whole)
      key = lanes.minIndex(key, last);
    attention.placeRows(attention.op.getValue(), key);
    Value row = halves(attention.op.getValue(), key, column);
    if (whole) {
      rows.push_back(row);
      continue;
    }
    Value zero = lanes.constant(
        cast<TypedAttr>(lanes.builder.getZeroAttr(row.getType())));
    Value exists = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, number,
                                             keys.count);
    rows.push_back(lanes.make<arith::SelectOp>(exists, row, zero));
  }
  return toWords(lanes, memory.vectorType(), rows[0], rows[1], order);
}

void PairPacking::packQueries() {
  Value query = attention.op.getQuery();
  int64_t head = attention.blocking.head;
  int64_t step = perWord * attention.blocking.lanes;
  Value first = attention.tile.firstQuery;
  lanes.loop(first, attention.tile.queryEnd, 1, [&](Value row) {
    Value start =
        lanes.mulIndex(lanes.subIndex(row, first), lanes.index(head / perWord));
    for (int64_t at = 0; at < head; at += step)
      memory.store(words(query, row, at), attention.scratch.queries,
                   lanes.addIndex(start, lanes.index(at / perWord)));
  });
}

/// Transposes rows of words to columns, as many at a time as a vector has
/// lanes.
void PairPacking::packKeys(const AttentionContext::KeyBlock &keys,
                           Value count) {
  const AttentionBlocking &blocking = attention.blocking;
  Value key = attention.op.getKey();
  int64_t columns = keyColumns(), step = perWord * blocking.lanes;
  Value width = lanes.index(columns);
  lanes.loop(lanes.index(0), count, blocking.lanes, [&](Value group) {
    SmallVector<Value> rows =
        attention.keysFrom(lanes.addIndex(keys.first, group));
    Value panel =
        lanes.mulIndex(lanes.divIndex(group, width),
                       lanes.index(blocking.head / perWord * columns));
    Value start = lanes.addIndex(panel, lanes.remIndex(group, width));
    attention.placeRows(key, rows);
    for (int64_t at = 0; at < blocking.head; at += step) {
      LaneBuilder::Scope scope(lanes);
      SmallVector<Value> square;
      for (Value row : rows)
        square.push_back(words(key, row, at));
      for (auto [i, vector] : llvm::enumerate(transpose(lanes, square)))
        memory.store(
            vector, attention.scratch.keys,
            lanes.addIndex(start, lanes.index((at / perWord + i) * columns)));
    }
  });
}

void PairPacking::packValues(const AttentionContext::KeyBlock &keys,
                             Value words) {
  const AttentionBlocking &blocking = attention.blocking;
  int64_t columns = valueColumns();
  lanes.loop(lanes.index(0), words, 1, [&](Value word) {
    for (int64_t at = 0; at < blocking.valueHead; at += blocking.lanes) {
      int64_t panel = at / columns * columns * blocking.keys / perWord;
      Value offset = lanes.addIndex(lanes.mulIndex(word, lanes.index(columns)),
                                    lanes.index(panel + at % columns));
      memory.store(valuePairs(keys, word, at), attention.scratch.values,
                   offset);
    }
  });
}

} // namespace codegen
} // namespace anabranch
