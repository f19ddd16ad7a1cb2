//===- AttentionSoftmax.cpp - from scores to weights ----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/AttentionEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace codegen {

/// Scores of a query with the mask, minus infinity where the query sees
/// nothing.
Value AttentionEmitter::maskScores(Value vector, Value row, Value key) {
  Value nothing = number(-std::numeric_limits<double>::infinity(), true);
  auto hide = [&](Value limit) {
    Value seen = lanes.prefixMask(
        lanes.maxIndex(lanes.subIndex(limit, key), lanes.index(0)));
    vector = lanes.make<arith::SelectOp>(seen, vector, nothing);
  };
  LaneBuilder::MaskGuard guard(lanes, t.lanes, Value());
  Value end = lanes.subIndex(keyCount, key);
  if (Value mask = op.getMask()) {
    Value inside = lanes.prefixMask(lanes.maxIndex(end, lanes.index(0)));
    LaneBuilder::MaskGuard masked(lanes, t.lanes, inside, true);
    bool isBool =
        cast<RankedTensorType>(mask.getType()).getElementType().isInteger(1);
    Lanes at = Lanes::linear(key, 1, t.lanes);
    if (isBool) {
      Lanes seen =
          evaluator->evaluate(mask, position(mask, Lanes::uniform(row), at));
      vector = lanes.make<arith::SelectOp>(lanes.vector(seen), vector, nothing);
    } else {
      vector = lanes.make<arith::AddFOp>(
          vector, lanes.vector(element(mask, Lanes::uniform(row), at)));
    }
  }
  hide(op.getCausal() ? lanes.minIndex(keyCount, lanes.addIndex(queryOf(row),
                                                                lanes.index(1)))
                      : keyCount);
  return vector;
}

void AttentionEmitter::rescale(Value row, Value factor) {
  auto type = VectorType::get({t.lanes}, t.element);
  Value factors = lanes.make<vector::BroadcastOp>(type, factor);
  Value start = lanes.mulIndex(row, lanes.index(t.valueHead));
  lanes.loop(lanes.index(0), lanes.index(t.valueHead), t.lanes, [&](Value at) {
    Value offset = lanes.addIndex(start, at);
    Value scaled =
        lanes.make<arith::MulFOp>(loadVector(output, offset), factors);
    storeValue(scaled, output, offset);
  });
}

/// Calls `body` for each vector of a row's scores, a few at a time; what it
/// makes of a carried value goes to the next.
Value AttentionEmitter::forEachVector(
    Value count, Value initial,
    function_ref<Value(Value at, Value carried)> body) {
  constexpr int64_t vectors = 4;
  int64_t step = std::min(t.keys, vectors * t.lanes);
  auto several = [&](Value from, Value carried) {
    for (int64_t at = 0; at < step; at += t.lanes)
      carried = body(lanes.addIndex(from, lanes.index(at)), carried);
    return carried;
  };
  if (t.keys == step)
    return several(lanes.index(0), initial);
  return lanes.loop(lanes.index(0), count, step, {initial},
                    [&](Value from, ValueRange carried) -> SmallVector<Value> {
                      return {several(from, carried[0])};
                    })[0];
}

/// Turns the scores of a row into weights relative to the row's maximum so far.
void AttentionEmitter::softmaxRow(Value row, Value firstKey, Value count) {
  OpBuilder &b = lanes.builder;
  auto type = VectorType::get({t.lanes}, t.element);
  Value local = lanes.subIndex(row, firstQuery);
  Value start = lanes.mulIndex(local, lanes.index(t.keys));
  Value nothing = number(-std::numeric_limits<double>::infinity(), true);
  auto larger = [&](Value a, Value b) -> Value {
    Value greater = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::OGT, a, b);
    return lanes.make<arith::SelectOp>(greater, a, b);
  };
  Value best = forEachVector(count, nothing, [&](Value at, Value before) {
    Value place = lanes.addIndex(start, at);
    Value masked = maskScores(loadVector(scores, place), row,
                              lanes.addIndex(firstKey, at));
    storeValue(masked, scores, place);
    return larger(masked, before);
  });
  Value before = loadScalar(maxima, local);
  Value highest = b.create<vector::ReductionOp>(
      lanes.loc, vector::CombiningKind::MAXNUMF, best);
  highest = larger(highest, before);
  storeValue(highest, maxima, local);
  // While nothing is seen, any finite number keeps the weights zero.
  Value isNone = lanes.make<arith::CmpFOp>(
      arith::CmpFPredicate::OEQ, highest,
      number(-std::numeric_limits<double>::infinity(), false));
  Value base = lanes.make<arith::SelectOp>(isNone, number(0, false), highest);
  Value bases = lanes.make<vector::BroadcastOp>(type, base);
  Value total =
      forEachVector(count, number(0, true), [&](Value at, Value carried) {
        Value place = lanes.addIndex(start, at);
        Value difference =
            lanes.make<arith::SubFOp>(loadVector(scores, place), bases);
        Value weight = b.create<math::ExpOp>(lanes.loc, difference);
        storeValue(weight, scores, place);
        return lanes.make<arith::AddFOp>(carried, weight);
      });
  Value sum =
      b.create<vector::ReductionOp>(lanes.loc, vector::CombiningKind::ADD,
                                    total, arith::FastMathFlags::reassoc);
  Value change = lanes.make<arith::SubFOp>(before, base);
  Value factor = b.create<math::ExpOp>(lanes.loc, change);
  Value old = lanes.make<arith::MulFOp>(loadScalar(sums, local), factor);
  storeValue(lanes.make<arith::AddFOp>(old, sum), sums, local);
  Value changed = lanes.make<arith::CmpFOp>(arith::CmpFPredicate::UNE, factor,
                                            number(1, false));
  lanes.ifThen(changed, [&] { rescale(local, factor); });
}

} // namespace codegen
} // namespace anabranch
