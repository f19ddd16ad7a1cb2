//===- OnlineSoftmax.cpp - from scores to weights -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/OnlineSoftmax.h"

#include "kernels/attention/PairPacking.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

using namespace mlir;

namespace anabranch {
namespace kernels {

static constexpr double nothing = -std::numeric_limits<double>::infinity();

void OnlineSoftmax::begin() {
  const AttentionBlocking &blocking = attention.blocking;
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value zero = attention.vector(0);
  lanes.loop(lanes.index(0), lanes.index(blocking.queries * blocking.valueHead),
             blocking.lanes,
             [&](Value at) { memory.store(zero, scratch.output, at); });
  Value none = attention.vector(nothing);
  lanes.loop(lanes.index(0), lanes.index(blocking.queries + blocking.lanes),
             blocking.lanes, [&](Value row) {
               memory.store(none, scratch.maxima, row);
               memory.store(none, scratch.factors, row);
             });
  lanes.loop(lanes.index(0), lanes.index(blocking.queries * blocking.lanes),
             blocking.lanes,
             [&](Value at) { memory.store(zero, scratch.sums, at); });
}

/// Queries of bf16 are unscaled. Their scores are scaled by the factor that
/// makes them exponents, unless a mask is added to them before, or the smallest
/// score would be the largest scaled one.
bool OnlineSoftmax::scalesScores() const {
  const AttentionBlocking &blocking = attention.blocking;
  if (!blocking.multipliesPairs() || blocking.hasParts())
    return false;
  Value mask = attention.op.getMask();
  bool adds =
      mask &&
      !cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1);
  return adds || !(attention.op.getScale().convertToDouble() > 0);
}

/// A score times this is the logarithm to base two of its weight.
double OnlineSoftmax::exponentOfScore() const {
  const AttentionBlocking &blocking = attention.blocking;
  bool isScaled =
      !blocking.multipliesPairs() || blocking.hasParts() || scalesScores();
  double scale = isScaled ? 1 : attention.op.getScale().convertToDouble();
  return scale * llvm::numbers::log2e;
}

/// Applies the user's mask to scores of a query: adds it, or sets scores to
/// minus infinity where a boolean mask is false.
Value OnlineSoftmax::addMask(Value scores, Value row, Value key) {
  Value mask = attention.op.getMask();
  Value end = lanes.subIndex(attention.keyCount, key);
  Value inside = lanes.prefixMask(end);
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

/// Applies all masks to scores of a query: minus infinity where the query does
/// not see the key.
Value OnlineSoftmax::maskScores(Value scores, Value row, Value key,
                                Hidden hidden) {
  if (hidden == Hidden::None)
    return scores;
  LaneBuilder::MaskGuard guard(lanes, attention.blocking.lanes, Value());
  if (hidden == Hidden::ByMask)
    scores = addMask(scores, row, key);
  // Scores of keys after the tile's last one were not computed.
  Value end = VisibleKeys(attention).endFor(row, hidden);
  Value seen = lanes.prefixMask(lanes.subIndex(end, key));
  return lanes.make<arith::SelectOp>(seen, scores, attention.vector(nothing));
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

/// Calls `body` for each vector of a row's scores, several in each step. The
/// value that a call returns is carried to the next one.
Value OnlineSoftmax::forEachVector(
    Value count, Value initial,
    function_ref<Value(Value at, Value carried)> body) {
  int64_t width = attention.blocking.lanes, keys = attention.blocking.keys;
  int64_t step = attention.blocking.keysOfStep();
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

/// Reduces by halves: LLVM's own reduction goes lane by lane.
Value OnlineSoftmax::largestLane(Value vector) {
  for (int64_t count = attention.blocking.lanes / 2; count > 0; count /= 2) {
    SmallVector<int64_t> low(count), high(count);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), count);
    vector = larger(lanes.make<vector::ShuffleOp>(vector, vector, high),
                    lanes.make<vector::ShuffleOp>(vector, vector, low));
  }
  return lanes.make<vector::ExtractOp>(vector, ArrayRef<int64_t>{0});
}

/// Masks a row's scores of a block, which begin at `start`, and returns a
/// vector with their maximum.
Value OnlineSoftmax::maximumOf(Value row, Value start,
                               const AttentionContext::KeyBlock &keys,
                               Hidden hidden) {
  Value scores = attention.scratch.scores;
  Value scale = attention.vector(attention.op.getScale().convertToDouble());
  return forEachVector(
      keys.count, attention.vector(nothing), [&](Value at, Value before) {
        Value place = lanes.addIndex(start, at);
        Value stored = memory.loadVector(scores, place), score = stored;
        if (scalesScores())
          score = lanes.make<arith::MulFOp>(score, scale);
        score = maskScores(score, row, lanes.addIndex(keys.first, at), hidden);
        if (score != stored)
          memory.store(score, scores, place);
        return larger(score, before);
      });
}

/// Pairs of bf16 are rounded weights, or parts of them, of two vectors of keys
/// at once. No weight is so small that the conversion flushes it to zero while
/// the sum still contains it.
void OnlineSoftmax::storeWeight(Value weight, Value place) {
  const AttentionContext::Scratch &scratch = attention.scratch;
  if (!attention.blocking.multipliesPairs())
    return memory.store(weight, scratch.scores, place);
  if (!weightBefore) {
    weightBefore = weight;
    return;
  }
  Value before = std::exchange(weightBefore, Value());
  int64_t width = attention.blocking.lanes;
  Value first = lanes.subIndex(place, lanes.index(width));
  if (attention.blocking.hasParts())
    return PairPacking(attention).storeWeights(before, weight, first);
  TypedMemory narrow(lanes, lanes.builder.getBF16Type(), width);
  if (Value both =
          lanes.isa.roundToBF16(lanes.builder, lanes.loc, before, weight))
    return narrow.ofWidth(2 * width).store(both, scratch.weights, first);
  narrow.store(truncateToBF16(lanes, before), scratch.weights, first);
  narrow.store(truncateToBF16(lanes, weight), scratch.weights, place);
}

/// The number that a row's scores are relative to. Before the row sees a key it
/// is any finite number, which keeps the weights zero.
Value OnlineSoftmax::baseOf(Value highest, Value zero, Value none) {
  Value isNone =
      lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, highest, none);
  return lanes.make<arith::SelectOp>(isNone, zero, highest);
}

void OnlineSoftmax::raiseMaximum(Value row, Value start,
                                 const AttentionContext::KeyBlock &keys,
                                 Hidden hidden) {
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value local = lanes.subIndex(row, attention.tile.firstQuery);
  Value best = maximumOf(row, start, keys, hidden);
  Value before = memory.loadScalar(scratch.maxima, local);
  memory.store(before, scratch.factors, local);
  memory.store(larger(largestLane(best), before), scratch.maxima, local);
}

/// Computes the factors of several rows from the maxima before and after the
/// block.
void OnlineSoftmax::makeFactors(const AttentionContext::RowBlock &rows) {
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value firstQuery = attention.tile.firstQuery;
  lanes.loop(lanes.subIndex(rows.first, firstQuery),
             lanes.subIndex(rows.end, firstQuery), attention.blocking.lanes,
             [&](Value local) {
               Value base =
                   baseOf(memory.loadVector(scratch.maxima, local),
                          attention.vector(0), attention.vector(nothing));
               Value before = memory.loadVector(scratch.factors, local);
               memory.store(powerOf(lanes.make<arith::SubFOp>(before, base),
                                    native::PowerDigits::All),
                            scratch.factors, local);
             });
}

/// The weight of a score that differs so from the maximum. It is zero where it,
/// or a part of it, would be a denormal number: the sum of the row has a weight
/// of one, and denormal numbers take a core a hundred times as long.
Value OnlineSoftmax::powerOf(Value difference, native::PowerDigits digits) {
  // A little above the exponents of the smallest normal numbers, and of the
  // smallest whose last part is one.
  double lowest = attention.blocking.element.isF64() ? -1021
                  : attention.blocking.hasParts()    ? -101
                                                     : -125;
  double factor = exponentOfScore();
  // Minus infinity is below the limit of any factor.
  Value limit = attention.vector(std::max(lowest / factor, -1e38));
  Value isTiny =
      lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OLT, difference, limit);
  Value inside = lanes.make<arith::SelectOp>(isTiny, limit, difference);
  return lanes.make<arith::SelectOp>(isTiny, attention.vector(0),
                                     native::makeNormalPower(lanes.builder,
                                                             lanes.loc, inside,
                                                             factor, digits));
}

void OnlineSoftmax::makeWeights(Value row, Value start,
                                const AttentionContext::KeyBlock &keys) {
  const AttentionContext::Scratch &scratch = attention.scratch;
  Value local = lanes.subIndex(row, attention.tile.firstQuery);
  Value base = baseOf(memory.loadScalar(scratch.maxima, local),
                      attention.scalar(0), attention.scalar(nothing));
  Value bases = lanes.make<vector::BroadcastOp>(memory.vectorType(), base);
  auto digits =
      attention.blocking.multipliesPairs() && !attention.blocking.hasParts()
          ? native::PowerDigits::BF16
          : native::PowerDigits::All;
  Value total = forEachVector(
      keys.count, attention.vector(0), [&](Value at, Value carried) {
        Value place = lanes.addIndex(start, at);
        Value difference = lanes.make<arith::SubFOp>(
            memory.loadVector(scratch.scores, place), bases);
        Value weight = powerOf(difference, digits);
        storeWeight(weight, place);
        return lanes.make<arith::AddFOp>(carried, weight);
      });
  Value factor = memory.loadScalar(scratch.factors, local);
  addToSum(local, factor, total);
  Value changed = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::UNE, factor,
                                            attention.scalar(1));
  lanes.ifThen(changed, [&] { rescale(local, factor); });
}

/// Adds the weights of a block to a row's sums, of which each lane has one.
void OnlineSoftmax::addToSum(Value local, Value factor, Value weights) {
  Value sums = attention.scratch.sums;
  Value place = lanes.mulIndex(local, lanes.index(attention.blocking.lanes));
  Value factors = lanes.make<vector::BroadcastOp>(memory.vectorType(), factor);
  Value before =
      lanes.make<arith::MulFOp>(memory.loadVector(sums, place), factors);
  memory.store(lanes.make<arith::AddFOp>(before, weights), sums, place);
}

void OnlineSoftmax::update(const AttentionContext::RowBlock &rows,
                           const AttentionContext::KeyBlock &keys) {
  auto scoresOf = [&](Value row) {
    return lanes.mulIndex(lanes.subIndex(row, rows.first),
                          lanes.index(attention.blocking.keys));
  };
  VisibleKeys(attention).whereHidden(rows, keys, [&](Hidden hidden) {
    lanes.loop(rows.first, rows.end, 1, [&](Value row) {
      raiseMaximum(row, scoresOf(row), keys, hidden);
    });
  });
  makeFactors(rows);
  lanes.loop(rows.first, rows.end, 1,
             [&](Value row) { makeWeights(row, scoresOf(row), keys); });
}

Value OnlineSoftmax::divisor(Value local) {
  Value sums = memory.loadVector(
      attention.scratch.sums,
      lanes.mulIndex(local, lanes.index(attention.blocking.lanes)));
  Value sum = lanes.builder.create<vector::ReductionOp>(
      lanes.loc, vector::CombiningKind::ADD, sums,
      arith::FastMathFlags::reassoc);
  // A row that sees no key has sum zero. Its output is zero, and stays so.
  Value isNone = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OEQ, sum,
                                           attention.scalar(0));
  return lanes.make<arith::SelectOp>(isNone, attention.scalar(1), sum);
}

} // namespace kernels
} // namespace anabranch
