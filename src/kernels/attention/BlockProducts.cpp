//===- BlockProducts.cpp - the products of a block of keys ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

void BlockProducts::begin() {
  Value query = attention.op.getQuery();
  int64_t width = attention.blocking.lanes;
  int64_t size = AttentionContext::headSize(query);
  Value head = lanes.index(attention.blocking.head);
  Value firstQuery = attention.tile.firstQuery;
  Value scale = attention.vector(attention.op.getScale().convertToDouble());
  lanes.loop(firstQuery, attention.tile.queryEnd, 1, [&](Value row) {
    Value start = lanes.mulIndex(lanes.subIndex(row, firstQuery), head);
    lanes.loop(lanes.index(0), head, width, [&](Value at) {
      LaneBuilder::MaskGuard guard(lanes, width, attention.headMask(size, at));
      Lanes value = attention.element(query, Lanes::uniform(row),
                                      Lanes::linear(at, 1, width));
      Value scaled = lanes.make<arith::MulFOp>(lanes.vector(value), scale);
      memory.store(scaled, attention.scratch.queries,
                   lanes.addIndex(start, at));
    });
  });
  // Blocks multiply the rows after the last query too. What is there by chance
  // may be denormal numbers, which take a core a hundred times as long.
  Value count = lanes.subIndex(attention.tile.queryEnd, firstQuery);
  Value blockRows = lanes.index(attention.blocking.rows);
  Value end = lanes.mulIndex(lanes.ceilDivIndex(count, blockRows), blockRows);
  clear(attention.scratch.queries, lanes.mulIndex(count, head),
        lanes.mulIndex(end, head));
}

void BlockProducts::clear(Value scratch, Value first, Value end) {
  Value zero = attention.vector(0);
  lanes.loop(first, end, attention.blocking.lanes,
             [&](Value at) { memory.store(zero, scratch, at); });
}

void BlockProducts::clearScores() {
  const AttentionBlocking &blocking = attention.blocking;
  clear(attention.scratch.scores, lanes.index(0),
        lanes.index(blocking.scoreRows * blocking.keys));
}

} // namespace kernels
} // namespace anabranch
