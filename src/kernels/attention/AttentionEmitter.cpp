//===- AttentionEmitter.cpp - the loops of an attention's tile ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionEmitter.h"

#include "kernels/attention/PackedAttention.h"
#include "kernels/attention/StreamedAttention.h"
#include "kernels/attention/TileBlockAttention.h"
#include "kernels/attention/VisibleKeys.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

/// Attention of one query after the other. It reads no key and no value that
/// the query does not see, so what they are does not matter: in a product of
/// blocks, a weight of zero times a hidden NaN is NaN.
class SeenKeys {
public:
  explicit SeenKeys(AttentionContext &attention)
      : attention(attention), lanes(attention.lanes), memory(attention.memory) {
  }

  /// Computes output and sums of the tile.
  void emit();

private:
  AttentionContext &attention;
  LaneBuilder &lanes;
  const TypedMemory &memory;

  /// The largest score of a row so far, and the sum of its weights, each in all
  /// lanes of a vector.
  using State = SmallVector<Value>;

  void emitRow(Value row);
  Value isSeen(Value row, Value key);
  Value scoreOf(Value row, Value key);
  State addKey(Value row, Value key, ValueRange before);
  void addValue(Value row, Value key, Value factor, Value weight);
  Value startOf(Value row);
  Value exponential(Value vector) {
    return lanes.builder.create<math::ExpOp>(lanes.loc, vector);
  }
};

void SeenKeys::emit() {
  lanes.loop(attention.tile.firstQuery, attention.tile.queryEnd, 1,
             [&](Value row) { emitRow(row); });
}

/// Where the row's output begins.
Value SeenKeys::startOf(Value row) {
  return lanes.mulIndex(lanes.subIndex(row, attention.tile.firstQuery),
                        lanes.index(attention.blocking.valueHead));
}

void SeenKeys::emitRow(Value row) {
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value start = startOf(row), zero = attention.vector(0);
  lanes.loop(lanes.index(0), lanes.index(attention.blocking.valueHead),
             attention.blocking.lanes, [&](Value at) {
               memory.store(zero, scratch.output, lanes.addIndex(start, at));
             });
  Value none = attention.vector(-std::numeric_limits<double>::infinity());
  Type vector = memory.vectorType();
  State last =
      lanes.loop(attention.tile.firstKey, attention.tile.keyEnd, 1,
                 {none, zero}, [&](Value key, ValueRange before) -> State {
                   return lanes.ifElse(
                       isSeen(row, key), {vector, vector},
                       [&] { return addKey(row, key, before); },
                       [&] { return State(before); });
                 });
  // Each lane has the whole sum, and lanes are a power of two.
  int64_t width = attention.blocking.lanes;
  Value local = lanes.subIndex(row, attention.tile.firstQuery);
  memory.store(
      lanes.make<arith::MulFOp>(last[1], attention.vector(1.0 / double(width))),
      scratch.sums, lanes.mulIndex(local, lanes.index(width)));
}

Value SeenKeys::isSeen(Value row, Value key) {
  Value seen = lanes.constant(lanes.builder.getBoolAttr(true));
  if (attention.op.getCausal())
    seen = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ule, key,
                                     attention.queryOf(row));
  Value mask = attention.op.getMask();
  if (!mask)
    return seen;
  Lanes query = Lanes::uniform(row), column = Lanes::uniform(key);
  if (cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1)) {
    Lanes shown = attention.evaluator->evaluate(
        mask, attention.position(mask, query, column));
    return lanes.make<arith::AndIOp>(seen, shown.value);
  }
  Value isOther = lanes.make<arith::CmpFOp>(
      arith::CmpFPredicate::UNE, attention.element(mask, query, column).value,
      attention.scalar(-std::numeric_limits<double>::infinity()));
  return lanes.make<arith::AndIOp>(seen, isOther);
}

Value SeenKeys::scoreOf(Value row, Value key) {
  ir::AttentionOp op = attention.op;
  int64_t width = attention.blocking.lanes;
  int64_t size = AttentionContext::headSize(op.getQuery());
  Value sums = lanes.loop(
      lanes.index(0), lanes.index(size), width, {memory.zeroVector()},
      [&](Value at, ValueRange before) -> State {
        LaneBuilder::MaskGuard guard(lanes, width,
                                     attention.headMask(size, at));
        Lanes column = Lanes::linear(at, 1, width);
        Value product = lanes.make<arith::MulFOp>(
            lanes.vector(
                attention.element(op.getQuery(), Lanes::uniform(row), column)),
            lanes.vector(
                attention.element(op.getKey(), Lanes::uniform(key), column)));
        return {lanes.make<arith::AddFOp>(before[0], product)};
      })[0];
  Value sum = lanes.builder.create<vector::ReductionOp>(
      lanes.loc, vector::CombiningKind::ADD, sums,
      arith::FastMathFlags::reassoc);
  Value score = lanes.make<arith::MulFOp>(
      sum, attention.scalar(op.getScale().convertToDouble()));
  Value mask = op.getMask();
  if (!mask ||
      cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1))
    return score;
  Lanes added =
      attention.element(mask, Lanes::uniform(row), Lanes::uniform(key));
  return lanes.make<arith::AddFOp>(score, added.value);
}

/// Weights are relative to the largest score so far, as OnlineSoftmax's are.
SeenKeys::State SeenKeys::addKey(Value row, Value key, ValueRange before) {
  Value scores =
      lanes.make<vector::BroadcastOp>(memory.vectorType(), scoreOf(row, key));
  Value rises =
      lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, scores, before[0]);
  Value highest = lanes.make<arith::SelectOp>(rises, scores, before[0]);
  Value isNone = lanes.make<arith::CmpFOp>(
      arith::CmpFPredicate::OEQ, highest,
      attention.vector(-std::numeric_limits<double>::infinity()));
  Value base =
      lanes.make<arith::SelectOp>(isNone, attention.vector(0), highest);
  Value factor = exponential(lanes.make<arith::SubFOp>(before[0], base));
  Value weight = exponential(lanes.make<arith::SubFOp>(scores, base));
  addValue(row, key, factor, weight);
  Value sum = lanes.make<arith::MulFOp>(before[1], factor);
  return {highest, lanes.make<arith::AddFOp>(sum, weight)};
}

void SeenKeys::addValue(Value row, Value key, Value factor, Value weight) {
  Value value = attention.op.getValue(), start = startOf(row);
  int64_t width = attention.blocking.lanes;
  int64_t size = AttentionContext::headSize(value);
  lanes.loop(lanes.index(0), lanes.index(size), width, [&](Value at) {
    LaneBuilder::MaskGuard guard(lanes, width, attention.headMask(size, at));
    Value place = lanes.addIndex(start, at);
    Value scaled = lanes.make<arith::MulFOp>(
        memory.loadVector(attention.scratch.output, place), factor);
    Value added = lanes.make<arith::MulFOp>(
        weight, lanes.vector(attention.element(value, Lanes::uniform(key),
                                               Lanes::linear(at, 1, width))));
    memory.store(lanes.make<arith::AddFOp>(scaled, added),
                 attention.scratch.output, place);
  });
}

} // namespace

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
  // Blocks of rows begin at multiples of their size, counted from the tile's
  // first query.
  Value low = tile.firstQuery;
  if (isCausal) {
    Value hidden =
        lanes.maxIndex(lanes.subIndex(keys.first, low), lanes.index(0));
    Value blocks = lanes.divIndex(hidden, lanes.index(size));
    low = lanes.addIndex(low, lanes.mulIndex(blocks, lanes.index(size)));
  }
  lanes.loop(low, tile.queryEnd, size, [&](Value first) {
    AttentionContext::RowBlock rows{
        first, lanes.minIndex(lanes.addIndex(first, lanes.index(size)),
                              tile.queryEnd)};
    AttentionContext::KeyBlock seen = keys;
    seen.count = VisibleKeys(attention).countFor(rows, keys);
    if (!attention.op.getMask())
      return emitRows(products, softmax, rows, seen);
    Value isSeen = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sgt,
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
  switch (attention.blocking.way) {
  case AttentionBlocking::Way::Streamed:
    return std::make_unique<StreamedAttention>(attention);
  case AttentionBlocking::Way::Tiles:
    return std::make_unique<TileBlockAttention>(attention);
  case AttentionBlocking::Way::Packed:
    return std::make_unique<PackedAttention>(attention);
  }
  llvm_unreachable("not a way to compute attention");
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
  unlessFinite([&] { again.emitBlocks(*again.chooseProducts()); });
}

void AttentionEmitter::unlessFinite(function_ref<void()> body) {
  Value isWrong = lanes.make<arith::XOrIOp>(
      hasOnlyFinite(), lanes.constant(lanes.builder.getBoolAttr(true)));
  lanes.ifThen(isWrong, body);
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
  if (attention.op.getMask() || attention.op.getCausal())
    unlessFinite([&] { SeenKeys(attention).emit(); });
  OnlineSoftmax softmax(attention);
  finish(softmax, epilogues);
}

} // namespace kernels
} // namespace anabranch
