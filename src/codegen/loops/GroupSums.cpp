//===- GroupSums.cpp - long sums, piece by piece --------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The error of a sum of n floats, one after the other, grows with n: the mean
// of a million positive numbers loses three of seven digits. So a long sum
// begins anew every so many steps, and only the sums of these pieces are added
// to each other: its error grows with the length of a piece and the number of
// pieces.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Combiner.h"
#include "codegen/loops/GroupEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// Steps of a piece.
static constexpr int64_t kPiece = 256;
/// Sums of no more steps are made in one go.
static constexpr int64_t kLongSum = 4 * kPiece;

/// Accumulators that hold nothing yet; of the group's width if lanes are
/// partial accumulators.
GroupEmitter::Values GroupEmitter::neutral(const Bundle &bundle) {
  LaneBuilder::Shape shape(lanes,
                           bundle.splitsLanes ? group.width : lanes.width,
                           bundle.splitsLanes ? Value() : lanes.mask);
  Values values;
  for (Nest *nest : bundle.members)
    if (nest->kind == Nest::Kind::Reduce)
      for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
        TypedAttr element = neutralElement(findCombiner(nest->generic(), i));
        values.push_back(lanes.vector(Lanes::uniform(lanes.constant(element))));
      }
  return values;
}

/// Both sets of accumulators as one.
GroupEmitter::Values GroupEmitter::combineAll(const Bundle &bundle,
                                              ValueRange left,
                                              ValueRange right) {
  Values values;
  for (Nest *nest : bundle.members)
    if (nest->kind == Nest::Kind::Reduce)
      for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
        size_t number = values.size();
        values.push_back(combine(lanes, findCombiner(nest->generic(), i),
                                 left[number], right[number]));
      }
  return values;
}

/// Whether the bundle adds floats up in more steps than `kLongSum`, or in an
/// unknown number of them, and can begin anew in between.
bool GroupEmitter::isLongSum(const Bundle &bundle) {
  bool adds = false;
  for (Nest *nest : bundle.members) {
    if (nest->kind == Nest::Kind::Scan)
      return false;
    if (nest->kind != Nest::Kind::Reduce)
      continue;
    for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
      Operation *combiner = findCombiner(nest->generic(), i);
      if (!combiner)
        return false;
      adds |= isa<arith::AddFOp>(combiner);
    }
  }
  int64_t steps = 1;
  for (const BundleLoop &loop : bundle.inner) {
    APInt size;
    if (!matchPattern(tripCount(bundle, loop), m_ConstantInt(&size)))
      return adds;
    int64_t count = size.getSExtValue();
    steps *= loop.hasLanes ? count / group.width + 1 : count;
  }
  return adds && steps > kLongSum;
}

/// `body(low, high, carried)`, or the same for pieces of it.
GroupEmitter::Values GroupEmitter::inPieces(const Bundle &bundle, Value low,
                                            Value high, int64_t step,
                                            ValueRange carried, PieceFn body) {
  APInt size;
  bool isShort = matchPattern(high, m_ConstantInt(&size)) &&
                 size.getSExtValue() <= 2 * kPiece * step;
  if (carried.empty() || isShort || !isLongSum(bundle))
    return body(low, high, carried);
  int64_t length = kPiece * step;
  return lanes.loop(
      low, high, length, carried, [&](Value first, ValueRange totals) {
        Value last =
            lanes.minIndex(lanes.addIndex(first, lanes.index(length)), high);
        Values one = neutral(bundle), fresh;
        while (fresh.size() < totals.size())
          fresh.append(one);
        Values part = body(first, last, fresh), sums;
        for (size_t at = 0; at < totals.size(); at += one.size())
          sums.append(combineAll(bundle, totals.slice(at, one.size()),
                                 ValueRange(part).slice(at, one.size())));
        return sums;
      });
}

} // namespace codegen
} // namespace anabranch
