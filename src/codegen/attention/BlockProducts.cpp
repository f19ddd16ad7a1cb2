//===- BlockProducts.cpp - the products of a block of keys ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/BlockProducts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

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
}

} // namespace codegen
} // namespace anabranch
