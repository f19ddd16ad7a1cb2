//===- AmxAttention.cpp - attention in AMX registers ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AmxAttention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static constexpr int64_t perWord = PairPacking::perWord;
static constexpr int64_t columns = AttentionBlocking::amxColumns;
/// Elements of the depth in one register.
static constexpr int64_t stepDepths = AmxBlock::words * perWord;

/// Both products use the same configuration of the registers.
void AmxAttention::makeBlocks() {
  int64_t rows = attention.blocking.scoreRows;
  AmxShape shape{AmxShape::Product::BF16,
                 /*vectors=*/2,
                 /*isTall=*/rows > AmxBlock::rows / 2,
                 /*reusesRight=*/true,
                 /*sumStride=*/attention.blocking.keys,
                 /*rightStep=*/columns,
                 /*reusesLeft=*/attention.blocking.hasParts()};
  scores.emplace(lanes, shape, lanes.index(rows));
  output.emplace(scores->withSums(attention.blocking.valueHead));
}

void AmxAttention::begin() {
  packing.packQueries();
  clearScores();
  makeBlocks();
}

void AmxAttention::prepare(const AttentionContext::KeyBlock &keys) {
  packing.packKeys(keys, keys.count);
  Value steps = lanes.ceilDivIndex(keys.count, lanes.index(stepDepths));
  packing.packValues(keys, lanes.mulIndex(steps, lanes.index(AmxBlock::words)));
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
    if (!attention.blocking.hasParts())
      return block.addWords(left, stride, right);
    int64_t parts = attention.blocking.parts, bytes = memory.elementBytes();
    block.addParts(
        left, stride, right,
        {parts, product.leftPart * bytes, parts, product.rightPart * bytes});
  });
  block.store(product.sums);
}

/// The first row of a block, counted from the tile's first.
Value AmxAttention::rowInTile(const AttentionContext::RowBlock &rows) {
  return lanes.subIndex(rows.first, attention.tile.firstQuery);
}

void AmxAttention::score(const AttentionContext::RowBlock &rows,
                         const AttentionContext::KeyBlock &keys) {
  const AttentionContext::Scratch &scratch = attention.scratch;
  int64_t headWords = attention.blocking.head / perWord;
  Value left = memory.pointerTo(
      scratch.queries, lanes.mulIndex(rowInTile(rows), lanes.index(headWords)));
  lanes.loop(lanes.index(0), keys.count, columns, [&](Value column) {
    Value right = memory.pointerTo(
        scratch.keys, lanes.mulIndex(column, lanes.index(headWords)));
    multiply(*scores, {left, headWords, attention.blocking.queryWords(), right,
                       attention.blocking.keyWords(),
                       lanes.index(attention.blocking.head / stepDepths),
                       memory.pointerTo(scratch.scores, column),
                       /*continues=*/false});
  });
}

void AmxAttention::mix(const AttentionContext::RowBlock &rows,
                       const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  int64_t keyWords = blocking.keys / perWord;
  Value start =
      lanes.mulIndex(rowInTile(rows), lanes.index(blocking.valueHead));
  Value steps = lanes.ceilDivIndex(keys.count, lanes.index(stepDepths));
  lanes.loop(
      lanes.index(0), lanes.index(blocking.valueHead), columns,
      [&](Value column) {
        Value right = memory.pointerTo(
            scratch.values, lanes.mulIndex(column, lanes.index(keyWords)));
        Value sums =
            memory.pointerTo(scratch.output, lanes.addIndex(start, column));
        multiply(*output, {scratch.weights, keyWords, blocking.weightWords(),
                           right, blocking.valueWords(), steps, sums,
                           /*continues=*/true});
      });
}

void AmxAttention::end() { output->release(); }

} // namespace kernels
} // namespace anabranch
