//===- OnlineSoftmax.cpp - from scores to weights -------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/OnlineSoftmax.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace codegen {

static constexpr double nothing = -std::numeric_limits<double>::infinity();

void OnlineSoftmax::begin() {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value zero = attention.vector(0);
  lanes.loop(lanes.index(0), lanes.index(blocking.queries * blocking.valueHead),
             blocking.lanes,
             [&](Value at) { memory.store(zero, scratch.output, at); });
  Value none = attention.scalar(nothing);
  lanes.loop(lanes.index(0), lanes.index(blocking.queries), 1, [&](Value row) {
    memory.store(none, scratch.maxima, row);
    memory.store(attention.scalar(0), scratch.sums, row);
  });
}

/// Scores of a query with the user's mask: added, or minus infinity where a
/// boolean one is false.
Value OnlineSoftmax::addMask(Value scores, Value row, Value key) {
  Value mask = attention.op.getMask();
  Value end = lanes.subIndex(attention.keyCount, key);
  Value inside = lanes.prefixMask(lanes.maxIndex(end, lanes.index(0)));
  LaneBuilder::MaskGuard masked(lanes, attention.blocking.lanes, inside, true);
  bool isBool =
      cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1);
  Lanes query = Lanes::uniform(row);
  Lanes keys = Lanes::linear(key, 1, attention.blocking.lanes);
  if (!isBool)
    return lanes.make<arith::AddFOp>(
        scores, lanes.vector(attention.element(mask, query, keys)));
  Lanes seen = attention.evaluator->evaluate(
      mask, attention.position(mask, query, keys));
  return lanes.make<arith::SelectOp>(lanes.vector(seen), scores,
                                     attention.vector(nothing));
}

/// Scores of a query with the mask, minus infinity where the query sees
/// nothing.
Value OnlineSoftmax::maskScores(Value scores, Value row, Value key) {
  Value hidden = attention.vector(nothing);
  LaneBuilder::MaskGuard guard(lanes, attention.blocking.lanes, Value());
  if (attention.op.getMask())
    scores = addMask(scores, row, key);
  Value limit = attention.keyCount;
  if (attention.op.getCausal())
    limit = lanes.minIndex(
        limit, lanes.addIndex(attention.queryOf(row), lanes.index(1)));
  Value seen = lanes.prefixMask(
      lanes.maxIndex(lanes.subIndex(limit, key), lanes.index(0)));
  return lanes.make<arith::SelectOp>(seen, scores, hidden);
}

void OnlineSoftmax::rescale(Value local, Value factor) {
  const AttentionBlocking &blocking = attention.blocking;
  Value output = attention.scratch.output;
  Value factors = lanes.make<vector::BroadcastOp>(memory.vectorType(), factor);
  Value start = lanes.mulIndex(local, lanes.index(blocking.valueHead));
  lanes.loop(lanes.index(0), lanes.index(blocking.valueHead), blocking.lanes,
             [&](Value at) {
               Value offset = lanes.addIndex(start, at);
               Value scaled = lanes.make<arith::MulFOp>(
                   memory.loadVector(output, offset), factors);
               memory.store(scaled, output, offset);
             });
}

/// Calls `body` for each vector of a row's scores, a few at a time; what it
/// makes of a carried value goes to the next.
Value OnlineSoftmax::forEachVector(
    Value count, Value initial,
    function_ref<Value(Value at, Value carried)> body) {
  constexpr int64_t vectors = 4;
  int64_t width = attention.blocking.lanes, keys = attention.blocking.keys;
  int64_t step = std::min(keys, vectors * width);
  auto several = [&](Value from, Value carried) {
    for (int64_t at = 0; at < step; at += width)
      carried = body(lanes.addIndex(from, lanes.index(at)), carried);
    return carried;
  };
  if (keys == step)
    return several(lanes.index(0), initial);
  return lanes.loop(lanes.index(0), count, step, {initial},
                    [&](Value from, ValueRange carried) -> SmallVector<Value> {
                      return {several(from, carried[0])};
                    })[0];
}

Value OnlineSoftmax::larger(Value a, Value b) {
  Value greater = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, a, b);
  return lanes.make<arith::SelectOp>(greater, a, b);
}

/// Masks a row's scores of a block and returns a vector with their maximum.
Value OnlineSoftmax::maximumOf(Value row,
                               const AttentionContext::KeyBlock &keys) {
  Value scores = attention.scratch.scores;
  Value start = lanes.mulIndex(lanes.subIndex(row, attention.tile.firstQuery),
                               lanes.index(attention.blocking.keys));
  return forEachVector(
      keys.count, attention.vector(nothing), [&](Value at, Value before) {
        Value place = lanes.addIndex(start, at);
        Value masked = maskScores(memory.loadVector(scores, place), row,
                                  lanes.addIndex(keys.first, at));
        memory.store(masked, scores, place);
        return larger(masked, before);
      });
}

void OnlineSoftmax::update(Value row, const AttentionContext::KeyBlock &keys) {
  OpBuilder &b = lanes.builder;
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value local = lanes.subIndex(row, attention.tile.firstQuery);
  Value best = maximumOf(row, keys);
  Value before = memory.loadScalar(scratch.maxima, local);
  Value highest = b.create<vector::ReductionOp>(
      lanes.loc, vector::CombiningKind::MAXNUMF, best);
  highest = larger(highest, before);
  memory.store(highest, scratch.maxima, local);
  // While nothing is seen, any finite number keeps the weights zero.
  Value isNone = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, highest,
                                           attention.scalar(nothing));
  Value base =
      lanes.make<arith::SelectOp>(isNone, attention.scalar(0), highest);
  Value bases = lanes.make<vector::BroadcastOp>(memory.vectorType(), base);
  Value start = lanes.mulIndex(local, lanes.index(attention.blocking.keys));
  Value total = forEachVector(
      keys.count, attention.vector(0), [&](Value at, Value carried) {
        Value place = lanes.addIndex(start, at);
        Value difference = lanes.make<arith::SubFOp>(
            memory.loadVector(scratch.scores, place), bases);
        Value weight = b.create<math::ExpOp>(lanes.loc, difference);
        memory.store(weight, scratch.scores, place);
        return lanes.make<arith::AddFOp>(carried, weight);
      });
  Value sum =
      b.create<vector::ReductionOp>(lanes.loc, vector::CombiningKind::ADD,
                                    total, arith::FastMathFlags::reassoc);
  Value change = lanes.make<arith::SubFOp>(before, base);
  Value factor = b.create<math::ExpOp>(lanes.loc, change);
  Value old =
      lanes.make<arith::MulFOp>(memory.loadScalar(scratch.sums, local), factor);
  memory.store(lanes.make<arith::AddFOp>(old, sum), scratch.sums, local);
  Value changed = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::UNE, factor,
                                            attention.scalar(1));
  lanes.ifThen(changed, [&] { rescale(local, factor); });
}

Value OnlineSoftmax::divisor(Value local) {
  Value mask = attention.op.getMask();
  bool isAdditive =
      mask &&
      !cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1);
  Value sum = memory.loadScalar(attention.scratch.sums, local);
  // A row that sees nothing has sum zero: NaN under an additive mask.
  if (isAdditive)
    return sum;
  Value isNone = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, sum,
                                           attention.scalar(0));
  return lanes.make<arith::SelectOp>(isNone, attention.scalar(1), sum);
}

} // namespace codegen
} // namespace anabranch
