//===- PackedAttention.cpp - attention of many queries --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/PackedAttention.h"

#include "kernels/emit/Transpose.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Packs keys as [panel][head][key]: squares of keys are transposed in
/// registers.
void PackedAttention::packKeys(Value firstKey) {
  const AttentionBlocking &blocking = attention.blocking;
  Value key = attention.op.getKey();
  int64_t width = blocking.lanes, size = AttentionContext::headSize(key);
  Value columns = lanes.index(blocking.keyColumns());
  auto packSquare = [&](ArrayRef<Value> rows, Value start, Value at) {
    LaneBuilder::MaskGuard guard(lanes, width, attention.headMask(size, at));
    SmallVector<Value> square;
    for (Value row : rows)
      square.push_back(lanes.vector(attention.element(
          key, Lanes::uniform(row), Lanes::linear(at, 1, width))));
    for (auto [i, vector] : llvm::enumerate(transpose(lanes, square))) {
      Value depth = lanes.addIndex(at, lanes.index(i));
      memory.store(vector, attention.scratch.keys,
                   lanes.addIndex(start, lanes.mulIndex(depth, columns)));
    }
  };
  lanes.loop(
      lanes.index(0), lanes.index(blocking.keys), width, [&](Value group) {
        SmallVector<Value> rows =
            attention.keysFrom(lanes.addIndex(firstKey, group));
        Value panel =
            lanes.mulIndex(lanes.divIndex(group, columns),
                           lanes.index(blocking.head * blocking.keyColumns()));
        Value start = lanes.addIndex(panel, lanes.remIndex(group, columns));
        attention.placeRows(key, rows);
        lanes.loop(lanes.index(0), lanes.index(blocking.head), width,
                   [&](Value at) { packSquare(rows, start, at); });
      });
}

/// Packs values as [panel][key][head], with zeros after the head.
void PackedAttention::packValues(const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  Value value = attention.op.getValue();
  int64_t width = blocking.lanes, size = AttentionContext::headSize(value);
  int64_t columns = blocking.valueColumns();
  lanes.loop(lanes.index(0), keys.count, 1, [&](Value number) {
    Value key = lanes.addIndex(keys.first, number);
    attention.placeRows(value, key);
    for (int64_t at = 0; at < blocking.valueHead; at += width) {
      Value column = lanes.index(at);
      LaneBuilder::MaskGuard guard(lanes, width,
                                   attention.headMask(size, column));
      // Whole vectors after the head are in no tensor.
      Lanes element = at < size
                          ? attention.element(value, Lanes::uniform(key),
                                              Lanes::linear(column, 1, width))
                          : Lanes::varying(attention.vector(0));
      int64_t panel = at / columns * columns * blocking.keys;
      Value offset =
          lanes.addIndex(lanes.mulIndex(number, lanes.index(columns)),
                         lanes.index(panel + at % columns));
      memory.store(lanes.vector(element), attention.scratch.values, offset);
    }
  });
}

/// The first row of a block in memory that has all rows of the tile.
Value PackedAttention::rowIn(Value tile, const AttentionContext::RowBlock &rows,
                             int64_t elements) const {
  Value row = lanes.subIndex(rows.first, attention.tile.firstQuery);
  return memory.pointerTo(tile, lanes.mulIndex(row, lanes.index(elements)));
}

void PackedAttention::multiply(const MicroKernel &kernel, func::FuncOp &block,
                               StringRef suffix,
                               const AttentionContext::RowBlock &rowBlock,
                               const Product &product) {
  int64_t rows = attention.blocking.rows, columns = kernel.columns();
  func::FuncOp source = attention.function.source;
  if (!block)
    block = kernel.create(lanes, source, (source.getName() + suffix).str());
  Value rowCount = lanes.subIndex(rowBlock.end, rowBlock.first);
  MicroKernel::Arguments arguments;
  arguments.words = product.words;
  arguments.continues =
      lanes.constant(lanes.builder.getBoolAttr(product.continues));
  Value panels = lanes.ceilDivIndex(product.columns, lanes.index(columns));
  // A panel stays in the first level of cache for all rows. The sums of rows
  // after the last query are not read.
  lanes.loop(lanes.index(0), panels, 1, [&](Value panel) {
    arguments.right = memory.pointerTo(
        product.right,
        lanes.mulIndex(panel, lanes.index(product.depth * columns)));
    Value column = lanes.mulIndex(panel, lanes.index(columns));
    lanes.loop(lanes.index(0), rowCount, rows, [&](Value row) {
      Value left = lanes.mulIndex(row, lanes.index(product.depth));
      arguments.left.clear();
      for (int64_t i = 0; i < rows; ++i)
        arguments.left.push_back(memory.pointerTo(
            product.left,
            lanes.addIndex(left, lanes.index(i * product.depth))));
      Value start = lanes.mulIndex(row, lanes.index(kernel.sumStride));
      arguments.sums =
          memory.pointerTo(product.result, lanes.addIndex(start, column));
      kernel.call(lanes, block, arguments);
    });
  });
}

void PackedAttention::begin() {
  if (attention.blocking.usesDots)
    return packing.packQueries();
  BlockProducts::begin();
}

void PackedAttention::prepare(const AttentionContext::KeyBlock &keys) {
  if (attention.blocking.usesDots) {
    packing.packKeys(keys, lanes.index(attention.blocking.keys));
    return packing.packValues(keys, wordsOf(keys));
  }
  packKeys(keys.first);
  packValues(keys);
}

/// The words of a block's keys, with those that fill up a group of neighbours.
/// These have weights of zero.
Value PackedAttention::wordsOf(const AttentionContext::KeyBlock &keys) const {
  Value side = lanes.index(attention.blocking.wordsAtOnce());
  Value words = lanes.ceilDivIndex(keys.count, lanes.index(perWord()));
  return lanes.mulIndex(lanes.ceilDivIndex(words, side), side);
}

MicroKernel PackedAttention::microKernel(int64_t vectors,
                                         int64_t sumStride) const {
  const AttentionBlocking &blocking = attention.blocking;
  MicroKernel kernel{blocking.element,
                     blocking.lanes,
                     blocking.rows,
                     vectors,
                     sumStride,
                     /*leftStep=*/1,
                     /*rightStep=*/blocking.lanes * vectors};
  if (blocking.usesDots)
    kernel.product.pairs = WordProduct::Pairs::Dot;
  kernel.product.isMatrix = blocking.usesMatrices;
  return kernel;
}

void PackedAttention::score(const AttentionContext::RowBlock &rows,
                            const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  int64_t words = blocking.head / perWord();
  // Weights are made in whole steps.
  Value step = lanes.index(blocking.keysOfStep());
  Value columns = lanes.mulIndex(lanes.ceilDivIndex(keys.count, step), step);
  multiply(microKernel(blocking.keyVectors, blocking.keys), scoreBlock,
           "_scores", rows,
           {rowIn(scratch.queries, rows, words), scratch.keys, scratch.scores,
            words, lanes.index(words), columns, /*continues=*/false});
}

void PackedAttention::mix(const AttentionContext::RowBlock &rows,
                          const AttentionContext::KeyBlock &keys) {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value weights = blocking.usesDots ? scratch.weights : scratch.scores;
  multiply(microKernel(blocking.valueVectors, blocking.valueHead), outputBlock,
           "_output", rows,
           {weights, scratch.values,
            rowIn(scratch.output, rows, blocking.valueHead),
            blocking.keys / perWord(), wordsOf(keys),
            lanes.index(blocking.valueHead), /*continues=*/true});
}

} // namespace kernels
} // namespace anabranch
