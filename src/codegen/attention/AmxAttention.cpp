//===- AmxAttention.cpp - attention of bf16 in AMX registers --------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/AmxAttention.h"

#include "codegen/emit/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <numeric>

using namespace mlir;

namespace anabranch {
namespace codegen {

namespace {

constexpr int64_t perWord = 2; ///< elements
constexpr int64_t columns = AttentionBlocking::amxColumns;
/// Depths, then words, of an AMX register.
constexpr int64_t stepDepths = AmxBlock::words * perWord;

/// Two vectors of halves of words as one of words.
Value toWords(LaneBuilder &lanes, Type wordVector, Value a, Value b,
              ArrayRef<int64_t> order) {
  Value both = lanes.make<vector::ShuffleOp>(a, b, order);
  return lanes.make<LLVM::BitcastOp>(wordVector, both);
}

} // namespace

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// A vector of elements of a row, zero behind the head, as integers.
Value AmxAttention::halves(Value tensor, Value row, int64_t column) {
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

/// A vector of words of a row.
Value AmxAttention::words(Value tensor, Value row, int64_t column) {
  SmallVector<int64_t> order(2 * attention.blocking.lanes);
  std::iota(order.begin(), order.end(), 0);
  return toWords(lanes, memory.vectorType(), halves(tensor, row, column),
                 halves(tensor, row, column + attention.blocking.lanes), order);
}

void AmxAttention::packQueries() {
  Value query = attention.op.getQuery();
  int64_t head = attention.blocking.head;
  Value first = attention.tile.firstQuery;
  lanes.loop(first, attention.tile.queryEnd, 1, [&](Value row) {
    Value start =
        lanes.mulIndex(lanes.subIndex(row, first), lanes.index(head / perWord));
    for (int64_t at = 0; at < head; at += stepDepths)
      memory.store(words(query, row, at), attention.scratch.queries,
                   lanes.addIndex(start, lanes.index(at / perWord)));
  });
}

/// [panel][word of the head][key]: squares of words are transposed in
/// registers. Keys beyond the last repeat it, and their scores are masked.
void AmxAttention::packKeys(const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  Value key = attention.op.getKey();
  Value width = lanes.index(columns);
  lanes.loop(lanes.index(0), keys.count, blocking.lanes, [&](Value group) {
    SmallVector<Value> rows =
        attention.keysFrom(lanes.addIndex(keys.first, group));
    Value panel =
        lanes.mulIndex(lanes.divIndex(group, width),
                       lanes.index(blocking.head / perWord * columns));
    Value start = lanes.addIndex(panel, lanes.remIndex(group, width));
    for (int64_t at = 0; at < blocking.head; at += stepDepths) {
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

/// [panel][word of two keys][head], with zeros behind the head and the last
/// key, up to a whole register: weights of zero meet them.
void AmxAttention::packValues(const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  Value value = attention.op.getValue();
  int64_t width = blocking.lanes;
  SmallVector<int64_t> pairs;
  for (int64_t i = 0; i < width; ++i)
    pairs.append({i, i + width});
  Value last = lanes.subIndex(attention.keyCount, lanes.index(1));
  Value end =
      lanes.mulIndex(lanes.ceilDivIndex(keys.count, lanes.index(stepDepths)),
                     lanes.index(AmxBlock::words));
  lanes.loop(lanes.index(0), end, 1, [&](Value word) {
    for (int64_t at = 0; at < blocking.valueHead; at += width) {
      SmallVector<Value> rows;
      for (int64_t i = 0; i < perWord; ++i) {
        Value number = lanes.addIndex(
            lanes.mulIndex(word, lanes.index(perWord)), lanes.index(i));
        Value key = lanes.minIndex(lanes.addIndex(keys.first, number), last);
        Value row = halves(value, key, at);
        Value zero = lanes.constant(
            cast<TypedAttr>(lanes.builder.getZeroAttr(row.getType())));
        Value exists = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt,
                                                 number, keys.count);
        rows.push_back(lanes.make<arith::SelectOp>(exists, row, zero));
      }
      int64_t panel = at / columns * columns * blocking.keys / perWord;
      Value offset = lanes.addIndex(lanes.mulIndex(word, lanes.index(columns)),
                                    lanes.index(panel + at % columns));
      memory.store(toWords(lanes, memory.vectorType(), rows[0], rows[1], pairs),
                   attention.scratch.values, offset);
    }
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

AmxBlock AmxAttention::makeBlock(int64_t sumStride) {
  int64_t rows = attention.blocking.scoreRows;
  AmxShape shape{AmxShape::Product::BF16,
                 /*vectors=*/2,
                 /*isTall=*/rows > AmxBlock::rows / 2,
                 /*reusesRight=*/true,
                 sumStride,
                 /*rightStep=*/columns};
  return AmxBlock(lanes, shape, lanes.index(rows));
}

void AmxAttention::begin() {
  packQueries();
  scores.emplace(makeBlock(attention.blocking.keys));
  output.emplace(makeBlock(attention.blocking.valueHead));
}

void AmxAttention::prepare(const AttentionContext::KeyBlock &keys) {
  packKeys(keys);
  packValues(keys);
}

void AmxAttention::multiply(AmxBlock &block, const Product &product) {
  block.start(product.sums,
              lanes.constant(lanes.builder.getBoolAttr(product.continues)));
  Value stride = lanes.i64(product.leftWords * memory.elementBytes());
  lanes.loop(lanes.index(0), product.steps, 1, [&](Value step) {
    Value left = memory.pointerTo(
        product.left, lanes.mulIndex(step, lanes.index(AmxBlock::words)));
    Value right = memory.pointerTo(
        product.right,
        lanes.mulIndex(step, lanes.index(AmxBlock::words * columns)));
    block.addWords(left, stride, right);
  });
  block.store(product.sums);
}

void AmxAttention::score(const AttentionContext::RowBlock &rows,
                         const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  int64_t headWords = blocking.head / perWord;
  Value local = lanes.subIndex(rows.first, attention.tile.firstQuery);
  Value left = memory.pointerTo(scratch.queries,
                                lanes.mulIndex(local, lanes.index(headWords)));
  lanes.loop(lanes.index(0), keys.count, columns, [&](Value column) {
    Value right = memory.pointerTo(
        scratch.keys, lanes.mulIndex(column, lanes.index(headWords)));
    multiply(*scores,
             {left, headWords, right, lanes.index(blocking.head / stepDepths),
              memory.pointerTo(scratch.scores, column),
              /*continues=*/false});
  });
}

void AmxAttention::mix(const AttentionContext::RowBlock &rows,
                       const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  int64_t keyWords = blocking.keys / perWord;
  Value local = lanes.subIndex(rows.first, attention.tile.firstQuery);
  Value start = lanes.mulIndex(local, lanes.index(blocking.valueHead));
  Value steps = lanes.ceilDivIndex(keys.count, lanes.index(stepDepths));
  lanes.loop(
      lanes.index(0), lanes.index(blocking.valueHead), columns,
      [&](Value column) {
        Value right = memory.pointerTo(
            scratch.values, lanes.mulIndex(column, lanes.index(keyWords)));
        Value sums =
            memory.pointerTo(scratch.output, lanes.addIndex(start, column));
        multiply(*output, {scratch.weights, keyWords, right, steps, sums,
                           /*continues=*/true});
      });
}

void AmxAttention::end() { output->release(); }

} // namespace codegen
} // namespace anabranch
