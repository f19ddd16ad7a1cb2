//===- FusedEmitter.cpp - the loops of fused nests ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/FusedEmitter.h"

#include "ir/Anabranch.h"
#include "kernels/control/VectorLoop.h"
#include "kernels/nests/Combiner.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// A body of more operations is not unrolled.
static constexpr int64_t shortBody = 8;
/// This many independent accumulators hide the latency of the combining
/// operation.
static constexpr int64_t unrolledAccumulators = 4;

FusedEmitter::FusedEmitter(LoopContext &context, NestStorage &storage,
                           const FusedNests &nests)
    : context(context), storage(storage), nests(nests),
      evaluator(context.evaluator), lanes(context.lanes), sums(context, nests),
      nextRow(context, nests) {}

void FusedEmitter::enter() {
  for (LoopNest *member : nests.members)
    points.push_back(context.pointOf(*member));
}

void FusedEmitter::emit() {
  enter();
  emitOuter(0);
  bindResults();
}

void FusedEmitter::deliver(ValueRange added) {
  finish(sums.combineAll(initial(), added));
  bindResults();
}

void FusedEmitter::bindResults() {
  for (LoopNest *member : nests.members) {
    storage.bindResult(*member);
    for (LoopNest *temporary : member->fills)
      storage.bindResult(*temporary);
  }
}

void FusedEmitter::setLoop(const FusedLoop &loop, Lanes index) {
  for (auto [point, parts] : llvm::zip(points, loop.loops)) {
    for (unsigned part : parts)
      point[part] = lanes.indexLanes(0);
    point[parts.back()] = index;
  }
}

void FusedEmitter::emitOuter(size_t depth) {
  if (depth == nests.outer.size()) {
    Values carried = initial();
    carried = emitInner(0, carried);
    finish(carried);
    return;
  }
  const FusedLoop &loop = nests.outer[depth];
  Value count = context.tripCount(nests, loop);
  if (!loop.hasLanes) {
    lanes.loop(lanes.index(0), count, 1, [&](Value iv) {
      setLoop(loop, Lanes::uniform(iv));
      emitOuter(depth + 1);
    });
    return;
  }
  APInt size;
  int64_t width = context.group.width;
  bool isExact = matchPattern(count, m_ConstantInt(&size)) &&
                 size.getSExtValue() % width == 0;
  VectorLoop vectors{lanes.index(0), count, width, isExact,
                     nests.operations() > longBody};
  vectors.emit(lanes, {}, [&](Lanes index, ValueRange) {
    setLoop(loop, index);
    emitOuter(depth + 1);
    return Values();
  });
}

//===----------------------------------------------------------------------===//
// Accumulators
//===----------------------------------------------------------------------===//

static SmallVector<Lanes> resultPoint(const LoopNest &nest,
                                      ArrayRef<Lanes> point) {
  SmallVector<Lanes> index;
  for (unsigned loop : nest.resultLoops)
    index.push_back(point[loop]);
  return index;
}

/// The start values of a nest's accumulators.
static SmallVector<Lanes>
startValues(Evaluator &evaluator, const LoopNest &nest, ArrayRef<Lanes> point) {
  SmallVector<Lanes> values;
  if (auto scan = dyn_cast_or_null<ir::ScanOp>(nest.op)) {
    values.push_back(evaluator.scalar(scan.getInit()));
  } else if (auto generic = nest.generic()) {
    SmallVector<Lanes> index = resultPoint(nest, point);
    for (Value init : generic.getDpsInits())
      values.push_back(evaluator.evaluate(init, index));
  }
  return values;
}

Values FusedEmitter::initial() {
  if (nests.splitsLanes)
    return sums.neutral();
  Values values;
  for (auto [nest, point] : llvm::zip(nests.members, points)) {
    if (nest->kind == LoopNest::Kind::Write ||
        nest->kind == LoopNest::Kind::Temporary)
      continue;
    for (Lanes start : startValues(evaluator, *nest, point))
      values.push_back(lanes.vector(start));
  }
  return values;
}

Values FusedEmitter::emitInner(size_t depth, ValueRange carried) {
  if (depth == nests.inner.size())
    return step(carried);
  const FusedLoop &loop = nests.inner[depth];
  if (loop.hasLanes)
    return emitSplit(loop, carried);
  bool isLast = depth + 1 == nests.inner.size();
  auto body = [&](Value iv, ValueRange values) {
    setLoop(loop, Lanes::uniform(iv));
    if (isLast || !sums.isLong())
      return emitInner(depth + 1, values);
    Values part = emitInner(depth + 1, sums.neutral());
    return sums.combineAll(values, part);
  };
  return sums.inPieces(lanes.index(0), context.tripCount(nests, loop), 1,
                       carried, [&](Value low, Value high, ValueRange values) {
                         return lanes.loop(low, high, 1, values, body);
                       });
}

Values FusedEmitter::stepAt(const FusedLoop &loop, Lanes index,
                            ValueRange carried) {
  setLoop(loop, index);
  return step(carried);
}

Values FusedEmitter::emitSplit(const FusedLoop &loop, ValueRange carried) {
  Value low = lanes.index(0), high = context.tripCount(nests, loop);
  int64_t width = context.group.width;
  APInt size;
  bool known = matchPattern(high, m_ConstantInt(&size));
  bool isExact = known && size.getSExtValue() % width == 0;
  bool unroll =
      !carried.empty() && nests.splitsLanes &&
      nests.operations() <= shortBody &&
      !(known && size.getSExtValue() < 2 * width * unrolledAccumulators);
  if (unroll)
    return emitUnrolled(loop, high, isExact, carried);
  return sums.inPieces(
      low, high, width, carried, [&](Value from, Value to, ValueRange values) {
        VectorLoop vectors{from, to, width, isExact,
                           nests.operations() > longBody};
        return vectors.emit(lanes, values, [&](Lanes index, ValueRange inner) {
          return stepAt(loop, index, inner);
        });
      });
}

Values FusedEmitter::emitUnrolled(const FusedLoop &loop, Value high,
                                  bool isExact, ValueRange carried) {
  Value low = lanes.index(0);
  int64_t width = context.group.width, wide = width * unrolledAccumulators;
  Value blocks = lanes.divIndex(high, lanes.index(wide));
  Value middle = lanes.mulIndex(blocks, lanes.index(wide));
  // Loops around this one may already have filled the first set of
  // accumulators.
  size_t count = carried.size();
  Values many(carried.begin(), carried.end());
  for (int64_t i = 1; i < unrolledAccumulators; ++i)
    many.append(sums.neutral());
  auto wideBody = [&](Value iv, ValueRange values) {
    Values next;
    LaneBuilder::MaskGuard guard(lanes, width, Value());
    for (int64_t i = 0; i < unrolledAccumulators; ++i) {
      Value at = lanes.addIndex(iv, lanes.index(i * width));
      next.append(stepAt(loop, Lanes::linear(at, 1, width),
                         values.slice(i * count, count)));
    }
    return next;
  };
  many = sums.inPieces(low, middle, wide, many,
                       [&](Value from, Value to, ValueRange values) {
                         return lanes.loop(from, to, wide, values, wideBody);
                       });
  Values merged(many.begin(), many.begin() + count);
  for (int64_t i = 1; i < unrolledAccumulators; ++i)
    merged = sums.combineAll(merged, ValueRange(many).slice(i * count, count));
  VectorLoop rest{middle, high, width, isExact};
  return rest.emit(lanes, merged, [&](Lanes index, ValueRange values) {
    return stepAt(loop, index, values);
  });
}

void FusedEmitter::finish(ValueRange carried) {
  size_t number = 0;
  for (auto [nest, point] : llvm::zip(nests.members, points)) {
    if (nest->kind != LoopNest::Kind::Reduce)
      continue;
    SmallVector<Lanes> results;
    SmallVector<Lanes> start;
    if (nests.splitsLanes)
      start = startValues(evaluator, *nest, point);
    for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
      Value value = carried[number++];
      if (nests.splitsLanes) {
        Operation *combiner = findCombiner(nest->generic(), i);
        value = combineAcross(lanes, combiner, value);
        value = combine(lanes, combiner, start[i].value, value);
      }
      results.push_back(lanes.wrap(value));
    }
    SmallVector<Lanes> index = resultPoint(*nest, point);
    for (auto [result, value] : llvm::zip(nest->op->getResults(), results))
      storage.deliver(*nest, result, index, value);
    if (!innerDims(*nest).empty())
      continue;
    for (auto [result, value] : llvm::zip(nest->op->getResults(), results)) {
      Lanes scalar = value;
      evaluator.bind(result, [scalar](ArrayRef<Lanes>) { return scalar; });
    }
  }
}

//===----------------------------------------------------------------------===//
// One point
//===----------------------------------------------------------------------===//

/// Evaluates and stores the temporaries that this nest needs first.
void FusedEmitter::fillTemporaries(LoopNest &nest, ArrayRef<Lanes> point) {
  for (LoopNest *temporary : nest.fills) {
    for (analysis::Read &read : nest.reads.reads) {
      if (read.tensor != temporary->value)
        continue;
      SmallVector<Lanes> index;
      for (const analysis::SymbolicIndex &position : read.index)
        index.push_back(point[*position.plainLoop()]);
      storage.deliver(*temporary, temporary->value, index,
                      evaluator.evaluate(temporary->value, index));
      break;
    }
  }
}

/// Runs a scan over the lanes of one vector. Returns the scalar with which the
/// next vector starts: only one operation then waits from vector to vector.
Value FusedEmitter::stepScan(LoopNest &nest, ArrayRef<Lanes> point,
                             Value carried) {
  auto scan = cast<ir::ScanOp>(nest.op);
  Operation *combiner = findCombiner(scan);
  Value vector = lanes.vector(evaluator.evaluate(scan.getInput(), point));
  if (lanes.mask) {
    Value neutral = lanes.constant(neutralElement(combiner));
    vector = lanes.make<arith::SelectOp>(lanes.mask, vector,
                                         lanes.vector(Lanes::uniform(neutral)));
  }
  vector = combineBefore(lanes, combiner, vector);
  Value last = lanes.make<vector::ExtractOp>(vector, lanes.width - 1);
  Value before = lanes.vector(Lanes::uniform(carried));
  storage.deliver(nest, nest.value, point,
                  lanes.wrap(combine(lanes, combiner, before, vector)));
  return combine(lanes, combiner, carried, last);
}

Values FusedEmitter::stepReduce(LoopNest &nest, ArrayRef<Lanes> point,
                                ValueRange carried) {
  SmallVector<Lanes> accumulators;
  for (Value value : carried)
    accumulators.push_back(lanes.wrap(value));
  SmallVector<Lanes> results;
  if (auto scan = dyn_cast<ir::ScanOp>(nest.op)) {
    Lanes element = evaluator.evaluate(scan.getInput(), point);
    results = evaluator.evaluateRegion(scan.getBody().front(),
                                       {accumulators[0], element});
    storage.deliver(nest, nest.value, point, results[0]);
  } else {
    results = evaluator.evaluateBody(nest.generic(), point, accumulators);
  }
  Values next;
  for (auto [old, result] : llvm::zip(carried, results)) {
    Value value = lanes.vector(result);
    // Lanes beyond the end must not change their partial result.
    if (nests.splitsLanes && lanes.mask)
      value = lanes.make<arith::SelectOp>(lanes.mask, value, old);
    next.push_back(value);
  }
  return next;
}

Values FusedEmitter::step(ValueRange carried) {
  Values next;
  SmallVector<std::tuple<LoopNest *, Point, Lanes>> writes;
  for (auto [nest, point] : llvm::zip(nests.members, points)) {
    nextRow.emit(*nest, point);
    fillTemporaries(*nest, point);
    if (nest->kind == LoopNest::Kind::Reduce ||
        nest->kind == LoopNest::Kind::Scan) {
      if (nest->kind == LoopNest::Kind::Scan && lanes.width > 1 &&
          nests.inner.back().hasLanes) {
        next.push_back(stepScan(*nest, point, carried[next.size()]));
        continue;
      }
      size_t count = nest->op->getNumResults();
      next.append(stepReduce(*nest, point, carried.slice(next.size(), count)));
      continue;
    }
    writes.push_back({nest, point, evaluator.evaluate(nest->value, point)});
  }
  // All nests read before any of them overwrites a value in place.
  for (auto &[nest, point, value] : writes)
    storage.deliver(*nest, nest->value, point, value);
  return next;
}

} // namespace kernels
} // namespace anabranch
