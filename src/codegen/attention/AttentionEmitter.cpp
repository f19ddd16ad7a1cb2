//===- AttentionEmitter.cpp - the loops of an attention's tile ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/AttentionEmitter.h"

#include "codegen/attention/PackedAttention.h"
#include "codegen/attention/StreamedAttention.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

Value AttentionEmitter::scratchBytes() {
  return lanes.index(attention.scratchElements() * memory.elementBytes());
}

/// [query][head], scaled, with zeros behind the head.
void AttentionEmitter::packQueries() {
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

void AttentionEmitter::emitBlocks(BlockProducts &products,
                                  OnlineSoftmax &softmax) {
  const AttentionContext::Tile &tile = attention.tile;
  int64_t size = attention.blocking.keys;
  lanes.loop(lanes.index(0), tile.keyEnd, size, [&](Value first) {
    Value count =
        lanes.minIndex(lanes.subIndex(tile.keyEnd, first), lanes.index(size));
    AttentionContext::KeyBlock keys{first, count};
    products.score(keys);
    lanes.loop(tile.firstQuery, tile.queryEnd, 1,
               [&](Value row) { softmax.update(row, keys); });
    products.mix(keys);
  });
}

/// A vector of the output in the type of the result.
Value AttentionEmitter::toResult(Value vector) {
  Type type = cast<RankedTensorType>(attention.op.getResult().getType())
                  .getElementType();
  if (type.isBF16())
    return truncateToBF16(lanes, vector);
  if (type != attention.blocking.element)
    return lanes.make<arith::TruncFOp>(lanes.vectorType(type), vector);
  return vector;
}

void AttentionEmitter::finish(OnlineSoftmax &softmax,
                              ArrayRef<Epilogue> epilogues) {
  Value result = attention.op.getResult();
  Evaluator &evaluator = *attention.evaluator;
  int64_t width = attention.blocking.lanes;
  int64_t size = AttentionContext::headSize(result);
  Value valueHead = lanes.index(attention.blocking.valueHead);
  Value firstQuery = attention.tile.firstQuery;
  lanes.loop(firstQuery, attention.tile.queryEnd, 1, [&](Value row) {
    Value local = lanes.subIndex(row, firstQuery);
    Value divisor = softmax.divisor(local);
    Value start = lanes.mulIndex(local, valueHead);
    lanes.loop(lanes.index(0), lanes.index(size), width, [&](Value at) {
      LaneBuilder::MaskGuard guard(lanes, width, attention.headMask(size, at));
      Value sum = memory.loadVector(attention.scratch.output,
                                    lanes.addIndex(start, at));
      Value value = toResult(lanes.make<arith::DivFOp>(
          sum, lanes.vector(Lanes::uniform(divisor))));
      evaluator.bind(
          result, [value](ArrayRef<Lanes>) { return Lanes::varying(value); });
      SmallVector<Lanes> index = attention.position(
          result, Lanes::uniform(row), Lanes::linear(at, 1, width));
      for (const Epilogue &epilogue : epilogues)
        epilogue.emit(evaluator, index);
    });
  });
}

void AttentionEmitter::emitTile(Evaluator &evaluator,
                                ArrayRef<Epilogue> epilogues, Value scratch,
                                Value tile) {
  attention.evaluator = &evaluator;
  attention.placeScratch(scratch);
  attention.enterTile(tile);
  packQueries();
  OnlineSoftmax softmax(attention);
  softmax.begin();
  StreamedAttention streamed(attention);
  PackedAttention packed(attention);
  if (attention.blocking.isStreamed)
    emitBlocks(streamed, softmax);
  else
    emitBlocks(packed, softmax);
  finish(softmax, epilogues);
}

} // namespace codegen
} // namespace anabranch
