//===- AttentionEmitter.cpp - the loops of an attention's tile ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionEmitter.h"

#include "kernels/attention/AmxAttention.h"
#include "kernels/attention/PackedAttention.h"
#include "kernels/attention/StreamedAttention.h"
#include "kernels/attention/VisibleKeys.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

Value AttentionEmitter::scratchBytes() {
  int64_t elements = attention.scratchElements();
  if (attention.blocking.hasParts()) {
    AttentionBlocking blocking = attention.blocking.withoutParts();
    AttentionContext vectors(attention.op, blocking, attention.function);
    elements = std::max(elements, vectors.scratchElements());
  }
  return lanes.index(elements * memory.elementBytes());
}

void AttentionEmitter::emitRows(BlockProducts &products, OnlineSoftmax &softmax,
                                const AttentionContext::RowBlock &rows,
                                const AttentionContext::KeyBlock &keys) {
  products.score(rows, keys);
  softmax.update(rows, keys);
  products.mix(rows, keys);
}

/// Emits the blocks of rows of a tile. Leaves out those that see none of the
/// keys.
void AttentionEmitter::emitRowBlocks(BlockProducts &products,
                                     OnlineSoftmax &softmax,
                                     const AttentionContext::KeyBlock &keys) {
  const AttentionContext::Tile &tile = attention.tile;
  int64_t size = attention.blocking.scoreRows;
  if (size == attention.blocking.queries)
    return emitRows(products, softmax, {tile.firstQuery, tile.queryEnd}, keys);
  bool isCausal = attention.op.getCausal();
  Value low =
      isCausal ? lanes.maxIndex(tile.firstQuery, keys.first) : tile.firstQuery;
  lanes.loop(low, tile.queryEnd, size, [&](Value first) {
    AttentionContext::RowBlock rows{
        first, lanes.minIndex(lanes.addIndex(first, lanes.index(size)),
                              tile.queryEnd)};
    AttentionContext::KeyBlock seen = keys;
    if (isCausal)
      seen.count =
          lanes.minIndex(keys.count, lanes.subIndex(rows.end, keys.first));
    if (!attention.op.getMask())
      return emitRows(products, softmax, rows, seen);
    seen.count = VisibleKeys(attention).countFor(rows, seen);
    Value isSeen = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne,
                                             seen.count, lanes.index(0));
    lanes.ifThen(isSeen, [&] { emitRows(products, softmax, rows, seen); });
  });
}

void AttentionEmitter::emitBlocks(BlockProducts &products) {
  const AttentionContext::Tile &tile = attention.tile;
  int64_t size = attention.blocking.keys;
  products.begin();
  OnlineSoftmax softmax(attention);
  softmax.begin();
  lanes.loop(tile.firstKey, tile.keyEnd, size, [&](Value first) {
    Value count =
        lanes.minIndex(lanes.subIndex(tile.keyEnd, first), lanes.index(size));
    AttentionContext::KeyBlock keys{first, count};
    products.prepare(keys);
    emitRowBlocks(products, softmax, keys);
  });
  products.end();
}

/// Checks the positions of keys and values that the tile does not read, since a
/// mask hides them. A table with a wrong entry there is an error too.
void AttentionEmitter::checkHiddenRows() {
  ir::AttentionOp op = attention.op;
  const AttentionContext::Tile &tile = attention.tile;
  if (!op.getMask() && !op.getCausal())
    return;
  int64_t width = attention.blocking.lanes;
  auto check = [&](Value first, Value end) {
    lanes.loop(first, end, width, [&](Value key) {
      LaneBuilder::MaskGuard guard(lanes, width, Value());
      Value inside = lanes.prefixMask(lanes.subIndex(end, key));
      LaneBuilder::MaskGuard masked(lanes, width, inside);
      Lanes rows = Lanes::linear(key, 1, width), column = lanes.indexLanes(0);
      if (attention.gathersKeys)
        attention.element(op.getKey(), rows, column);
      if (attention.gathersValues)
        attention.element(op.getValue(), rows, column);
    });
  };
  check(lanes.index(0), tile.firstKey);
  check(tile.keyEnd, attention.keyCount);
}

std::unique_ptr<BlockProducts> AttentionEmitter::chooseProducts() {
  if (attention.blocking.isStreamed)
    return std::make_unique<StreamedAttention>(attention);
  if (attention.blocking.usesAmx)
    return std::make_unique<AmxAttention>(attention);
  return std::make_unique<PackedAttention>(attention);
}

/// Whether all sums of weights times values are finite numbers.
Value AttentionEmitter::hasOnlyFinite() {
  Value count =
      lanes.subIndex(attention.tile.queryEnd, attention.tile.firstQuery);
  Value end = lanes.mulIndex(count, lanes.index(attention.blocking.valueHead));
  // The difference is NaN unless the sum is finite.
  Value rest = lanes.loop(
      lanes.index(0), end, attention.blocking.lanes, {memory.zeroVector()},
      [&](Value at, ValueRange before) -> SmallVector<Value> {
        Value sum = memory.loadVector(attention.scratch.output, at);
        return {lanes.make<arith::AddFOp>(before[0],
                                          lanes.make<arith::SubFOp>(sum, sum))};
      })[0];
  Value all = lanes.builder.create<vector::ReductionOp>(
      lanes.loc, vector::CombiningKind::ADD, rest,
      arith::FastMathFlags::reassoc);
  return lanes.make<arith::CmpFOp>(arith::CmpFPredicate::ORD, all, all);
}

/// Computes the tile again unless its output is finite. What `finish` reads
/// lies in the same place.
void AttentionEmitter::repeatWithoutParts(Value scratch) {
  AttentionBlocking blocking = attention.blocking.withoutParts();
  AttentionContext vectors(attention.op, blocking, attention.function);
  vectors.evaluator = attention.evaluator;
  vectors.tile = attention.tile;
  vectors.placeScratch(scratch);
  AttentionEmitter again(vectors);
  Value isWrong = lanes.make<arith::XOrIOp>(
      hasOnlyFinite(), lanes.constant(lanes.builder.getBoolAttr(true)));
  lanes.ifThen(isWrong, [&] { again.emitBlocks(*again.chooseProducts()); });
}

/// Converts a vector of the output to the type of the result.
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
  if (attention.op.getMask())
    VisibleKeys(attention).narrowTile();
  if (attention.gathersKeys || attention.gathersValues)
    checkHiddenRows();
  emitBlocks(*chooseProducts());
  if (attention.blocking.hasParts())
    repeatWithoutParts(scratch);
  OnlineSoftmax softmax(attention);
  finish(softmax, epilogues);
}

} // namespace kernels
} // namespace anabranch
