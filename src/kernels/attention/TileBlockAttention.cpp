//===- TileBlockAttention.cpp - attention in tile registers ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/TileBlockAttention.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static constexpr int64_t perWord = PairPacking::perWord;
static constexpr int64_t columns = AttentionBlocking::tileColumns;
/// Elements of the depth in one register.
static constexpr int64_t stepDepths = TileBlock::words * perWord;

/// Both products use the same configuration of the registers.
void TileBlockAttention::makeBlocks() {
  int64_t rows = attention.blocking.scoreRows;
  TileBlockShape shape{TileBlockShape::Product::BF16,
                       /*vectors=*/2,
                       /*isTall=*/rows > TileBlock::rows / 2,
                       /*reusesRight=*/true,
                       /*sumStride=*/attention.blocking.keys,
                       /*rightStep=*/columns,
                       /*reusesLeft=*/attention.blocking.hasParts()};
  scores.emplace(lanes, shape, lanes.index(rows));
  output.emplace(scores->withSums(attention.blocking.valueHead));
}

void TileBlockAttention::begin() {
  packing.packQueries();
  clearScores();
  makeBlocks();
}

void TileBlockAttention::prepare(const AttentionContext::KeyBlock &keys) {
  packing.packKeys(keys, keys.count);
  Value steps = lanes.ceilDivIndex(keys.count, lanes.index(stepDepths));
  packing.packValues(keys,
                     lanes.mulIndex(steps, lanes.index(TileBlock::words)));
}

void TileBlockAttention::multiply(TileBlock &block, const Product &product) {
  block.start(product.sums,
              lanes.constant(lanes.builder.getBoolAttr(product.continues)));
  Value stride = lanes.i64(product.leftWords * memory.elementBytes());
  lanes.loop(lanes.index(0), product.steps, 1, [&](Value step) {
    Value left = memory.pointerTo(
        product.left, lanes.mulIndex(step, lanes.index(TileBlock::words)));
    Value right = memory.pointerTo(
        product.right,
        lanes.mulIndex(step, lanes.index(TileBlock::words * columns)));
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
Value TileBlockAttention::rowInTile(const AttentionContext::RowBlock &rows) {
  return lanes.subIndex(rows.first, attention.tile.firstQuery);
}

void TileBlockAttention::score(const AttentionContext::RowBlock &rows,
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

void TileBlockAttention::mix(const AttentionContext::RowBlock &rows,
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

void TileBlockAttention::end() { output->release(); }

} // namespace kernels
} // namespace anabranch
