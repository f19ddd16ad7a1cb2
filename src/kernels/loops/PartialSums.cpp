//===- PartialSums.cpp - reductions in several accumulators ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/PartialSums.h"

#include "kernels/nests/Combiner.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Steps of one piece of a sum, pieces of a piece of pieces, and so on: the
/// rounding error of a sum grows with the square root of its steps.
static constexpr int64_t pieceSteps = 32;
/// A sum of at most this many steps is not cut into pieces.
static constexpr int64_t longSumSteps = 2 * pieceSteps;

Values PartialSums::neutral() {
  LaneBuilder::MaskGuard guard(
      lanes, nests.splitsLanes ? context.group.width : lanes.width,
      nests.splitsLanes ? Value() : lanes.mask);
  Values values;
  for (LoopNest *nest : nests.members)
    if (nest->kind == LoopNest::Kind::Reduce)
      for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
        TypedAttr element = neutralElement(findCombiner(nest->generic(), i));
        values.push_back(lanes.vector(Lanes::uniform(lanes.constant(element))));
      }
  return values;
}

Values PartialSums::combineAll(ValueRange left, ValueRange right) {
  Values values;
  for (LoopNest *nest : nests.members)
    if (nest->kind == LoopNest::Kind::Reduce)
      for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
        size_t number = values.size();
        values.push_back(combine(lanes, findCombiner(nest->generic(), i),
                                 left[number], right[number]));
      }
  return values;
}

bool PartialSums::isLong() {
  bool adds = false;
  for (LoopNest *nest : nests.members) {
    if (nest->kind == LoopNest::Kind::Scan)
      return false;
    if (nest->kind != LoopNest::Kind::Reduce)
      continue;
    for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
      Operation *combiner = findCombiner(nest->generic(), i);
      if (!combiner)
        return false;
      adds |= isa<arith::AddFOp>(combiner);
    }
  }
  int64_t steps = 1;
  for (const FusedLoop &loop : nests.inner) {
    APInt size;
    if (!matchPattern(context.tripCount(nests, loop), m_ConstantInt(&size)))
      return adds;
    int64_t count = size.getSExtValue();
    steps *= loop.hasLanes ? count / context.group.width + 1 : count;
  }
  return adds && steps > longSumSteps;
}

/// The length of the longest pieces of a sum of `size` elements, where a step
/// takes `step` of them.
static int64_t longestPiece(int64_t size, int64_t step) {
  int64_t length = pieceSteps * step;
  while (length * pieceSteps < size)
    length *= pieceSteps;
  return length;
}

Values PartialSums::inPieces(Value low, Value high, int64_t step,
                             ValueRange carried, PieceFn body) {
  APInt size;
  bool isKnown = matchPattern(high, m_ConstantInt(&size));
  bool isShort = isKnown && size.getSExtValue() <= longSumSteps * step;
  if (carried.empty() || isShort || !isLong())
    return body(low, high, carried);
  int64_t length = isKnown ? longestPiece(size.getSExtValue(), step)
                           : pieceSteps * pieceSteps * pieceSteps * step;
  return cut(low, high, length, step, carried, body);
}

Values PartialSums::cut(Value low, Value high, int64_t length, int64_t step,
                        ValueRange carried, PieceFn body) {
  if (length <= step)
    return body(low, high, carried);
  return lanes.loop(
      low, high, length, carried, [&](Value first, ValueRange totals) {
        Value last =
            lanes.minIndex(lanes.addIndex(first, lanes.index(length)), high);
        Values one = neutral(), fresh;
        while (fresh.size() < totals.size())
          fresh.append(one);
        Values part = cut(first, last, length / pieceSteps, step, fresh, body),
               sums;
        for (size_t at = 0; at < totals.size(); at += one.size())
          sums.append(combineAll(totals.slice(at, one.size()),
                                 ValueRange(part).slice(at, one.size())));
        return sums;
      });
}

} // namespace kernels
} // namespace anabranch
