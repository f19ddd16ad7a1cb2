//===- GroupBodies.cpp - what the loops of a group do ---------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Combiner.h"
#include "codegen/emit/Destinations.h"
#include "codegen/loops/GroupEmitter.h"
#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

//===----------------------------------------------------------------------===//
// Accumulators
//===----------------------------------------------------------------------===//

static SmallVector<Lanes> resultPoint(const Nest &nest, ArrayRef<Lanes> point) {
  SmallVector<Lanes> index;
  for (unsigned loop : nest.resultLoops)
    index.push_back(point[loop]);
  return index;
}

/// The values that the accumulators of a nest start from.
static SmallVector<Lanes> startValues(Evaluator &evaluator, const Nest &nest,
                                      ArrayRef<Lanes> point) {
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

GroupEmitter::Values GroupEmitter::initial(Bundle &bundle,
                                           ArrayRef<Point> points) {
  if (bundle.splitsLanes)
    return neutral(bundle);
  Values values;
  for (auto [nest, point] : llvm::zip(bundle.members, points)) {
    if (nest->kind == Nest::Kind::Write || nest->kind == Nest::Kind::Keep)
      continue;
    for (Lanes start : startValues(evaluator, *nest, point))
      values.push_back(lanes.vector(start));
  }
  return values;
}

GroupEmitter::Values GroupEmitter::emitInner(Bundle &bundle,
                                             MutableArrayRef<Point> points,
                                             size_t depth, ValueRange carried) {
  if (depth == bundle.inner.size())
    return step(bundle, points, carried);
  const BundleLoop &loop = bundle.inner[depth];
  if (loop.hasLanes)
    return emitSplit(bundle, points, loop, carried);
  bool isLast = depth + 1 == bundle.inner.size();
  auto body = [&](Value iv, ValueRange values) {
    setLoop(loop, points, Lanes::uniform(iv));
    if (isLast || !isLongSum(bundle))
      return emitInner(bundle, points, depth + 1, values);
    Values part = emitInner(bundle, points, depth + 1, neutral(bundle));
    return combineAll(bundle, values, part);
  };
  return inPieces(bundle, lanes.index(0), tripCount(bundle, loop), 1, carried,
                  [&](Value low, Value high, ValueRange values) {
                    return lanes.loop(low, high, 1, values, body);
                  });
}

/// Independent accumulators that hide the latency of the combining operation.
static constexpr int64_t unrolledAccumulators = 4;

GroupEmitter::Values GroupEmitter::emitSplit(Bundle &bundle,
                                             MutableArrayRef<Point> points,
                                             const BundleLoop &loop,
                                             ValueRange carried) {
  Value low = lanes.index(0), high = tripCount(bundle, loop);
  APInt size;
  bool known = matchPattern(high, m_ConstantInt(&size));
  bool exact = known && size.getSExtValue() % group.width == 0;
  auto body = [&](Lanes index, ValueRange values) {
    setLoop(loop, points, index);
    return step(bundle, points, values);
  };
  int64_t wide = group.width * unrolledAccumulators;
  bool unroll = !carried.empty() && bundle.splitsLanes &&
                operations(bundle) <= shortBody &&
                !(known && size.getSExtValue() < 2 * wide);
  if (!unroll)
    return inPieces(bundle, low, high, group.width, carried,
                    [&](Value from, Value to, ValueRange values) {
                      bool heavy = operations(bundle) > longBody;
                      return vectorLoop(from, to, exact, heavy, values, body);
                    });

  Value blocks = lanes.divIndex(high, lanes.index(wide));
  Value middle = lanes.mulIndex(blocks, lanes.index(wide));
  // Loops around this one may have filled the first set already.
  size_t count = carried.size();
  Values many(carried.begin(), carried.end());
  for (int64_t i = 1; i < unrolledAccumulators; ++i)
    many.append(neutral(bundle));
  auto wideBody = [&](Value iv, ValueRange values) {
    Values next;
    LaneBuilder::Shape shape(lanes, group.width, Value());
    for (int64_t i = 0; i < unrolledAccumulators; ++i) {
      Value at = lanes.addIndex(iv, lanes.index(i * group.width));
      next.append(body(Lanes::linear(at, 1, group.width),
                       values.slice(i * count, count)));
    }
    return next;
  };
  many = inPieces(bundle, low, middle, wide, many,
                  [&](Value from, Value to, ValueRange values) {
                    return lanes.loop(from, to, wide, values, wideBody);
                  });
  Values merged(many.begin(), many.begin() + count);
  for (int64_t i = 1; i < unrolledAccumulators; ++i)
    merged =
        combineAll(bundle, merged, ValueRange(many).slice(i * count, count));
  return vectorLoop(middle, high, exact, /*heavy=*/false, merged, body);
}

GroupEmitter::Values GroupEmitter::finish(Bundle &bundle,
                                          ArrayRef<Point> points,
                                          ValueRange carried) {
  size_t number = 0;
  for (auto [nest, point] : llvm::zip(bundle.members, points)) {
    if (nest->kind != Nest::Kind::Reduce)
      continue;
    SmallVector<Lanes> results;
    SmallVector<Lanes> start;
    if (bundle.splitsLanes)
      start = startValues(evaluator, *nest, point);
    for (unsigned i = 0; i < nest->op->getNumResults(); ++i) {
      Value value = carried[number++];
      if (bundle.splitsLanes) {
        Operation *combiner = findCombiner(nest->generic(), i);
        value = combineAcross(lanes, combiner, value);
        value = combine(lanes, combiner, start[i].value, value);
      }
      results.push_back(lanes.wrap(value));
    }
    SmallVector<Lanes> index = resultPoint(*nest, point);
    for (auto [result, value] : llvm::zip(nest->op->getResults(), results))
      deliver(*nest, result, index, value);
    if (!innerDims(*nest).empty())
      continue;
    for (auto [result, value] : llvm::zip(nest->op->getResults(), results)) {
      Lanes scalar = value;
      evaluator.bind(result, [scalar](ArrayRef<Lanes>) { return scalar; });
    }
  }
  return Values();
}

//===----------------------------------------------------------------------===//
// One point
//===----------------------------------------------------------------------===//

Lanes GroupEmitter::valueOf(Nest &nest, ArrayRef<Lanes> point) {
  return evaluator.evaluate(nest.value, point);
}

/// Evaluates the values that this nest is the first to need, and keeps them.
void GroupEmitter::fillKeeps(Nest &nest, ArrayRef<Lanes> point) {
  for (Nest *keep : nest.fills) {
    for (Read &read : nest.reads.reads) {
      if (read.tensor != keep->value)
        continue;
      SmallVector<Lanes> index;
      for (const SymbolicIndex &position : read.index)
        index.push_back(point[*position.plainLoop()]);
      deliver(*keep, keep->value, index, valueOf(*keep, index));
      break;
    }
  }
}

/// Where a kept value lies: rows have no stride, and the lanes of a row of
/// lanes have the last dimension.
GroupEmitter::Point GroupEmitter::keptIndex(const Nest &nest,
                                            ArrayRef<Lanes> index) {
  Point point = llvm::to_vector(index);
  for (auto [dim, loop] : llvm::enumerate(nest.resultLoops))
    if (nest.loops[loop].row >= 0)
      point[dim] = lanes.indexLanes(0);
  bool laneRow = group.laneRow >= 0 && lanes.width > 1;
  point.push_back(laneRow ? Lanes::linear(lanes.index(0), 1, lanes.width)
                          : lanes.indexLanes(0));
  return point;
}

/// Writes one of the nest's values to where it goes.
void GroupEmitter::deliver(Nest &nest, Value result, ArrayRef<Lanes> index,
                           Lanes value) {
  if (result == nest.value)
    for (Buffer &target : targets[&nest])
      store(lanes, target, index, value);
  auto found = kept.find(result);
  if (found != kept.end())
    store(lanes, found->second, keptIndex(nest, index), value);
}

void GroupEmitter::bindResult(Nest &nest) {
  if (!nest.isRead || nest.kind == Nest::Kind::Write)
    return;
  if (!targets[&nest].empty() && !innerDims(nest).empty())
    return evaluator.bind(nest.value, targets[&nest][0]);
  for (Value value : valuesOf(nest)) {
    auto found = kept.find(value);
    if (found == kept.end())
      continue;
    Buffer buffer = found->second;
    const Nest *maker = &nest;
    evaluator.bind(value, [this, buffer, maker](ArrayRef<Lanes> index) {
      return load(lanes, buffer, keptIndex(*maker, index));
    });
  }
}

GroupEmitter::Values GroupEmitter::stepReduce(Bundle &bundle, Nest &nest,
                                              ArrayRef<Lanes> point,
                                              ValueRange carried) {
  SmallVector<Lanes> accumulators;
  for (Value value : carried)
    accumulators.push_back(lanes.wrap(value));
  SmallVector<Lanes> results;
  if (auto scan = dyn_cast<ir::ScanOp>(nest.op)) {
    Lanes element = evaluator.evaluate(scan.getInput(), point);
    results = evaluator.evaluateRegion(scan.getBody().front(),
                                       {accumulators[0], element});
    deliver(nest, nest.value, point, results[0]);
  } else {
    results = evaluator.evaluateBody(nest.generic(), point, accumulators);
  }
  Values next;
  for (auto [old, result] : llvm::zip(carried, results)) {
    Value value = lanes.vector(result);
    // Lanes beyond the end must leave their partial result alone.
    if (bundle.splitsLanes && lanes.mask)
      value = lanes.make<arith::SelectOp>(lanes.mask, value, old);
    next.push_back(value);
  }
  return next;
}

GroupEmitter::Values GroupEmitter::step(Bundle &bundle, ArrayRef<Point> points,
                                        ValueRange carried) {
  Values next;
  SmallVector<std::tuple<Nest *, Point, Lanes>> writes;
  for (auto [nest, point] : llvm::zip(bundle.members, points)) {
    fillKeeps(*nest, point);
    if (nest->kind == Nest::Kind::Reduce || nest->kind == Nest::Kind::Scan) {
      size_t count = nest->op->getNumResults();
      next.append(
          stepReduce(bundle, *nest, point, carried.slice(next.size(), count)));
      continue;
    }
    writes.push_back({nest, point, valueOf(*nest, point)});
  }
  // Everything is read before anything is overwritten in place.
  for (auto &[nest, point, value] : writes)
    deliver(*nest, nest->value, point, value);
  return next;
}

//===----------------------------------------------------------------------===//
// Scatter
//===----------------------------------------------------------------------===//

/// The elements that no update touches; they are there already when the
/// argument itself is updated.
void GroupEmitter::copyInit(Nest &nest, const Buffer &buffer) {
  auto scatter = cast<ir::ScatterOp>(nest.op);
  Value init = scatter.getInit();
  auto argument = dyn_cast<BlockArgument>(init);
  for (Destination &destination : nest.destinations)
    if (argument && destination.path.empty() &&
        inPlaceArgument(model.source, destination.result) ==
            argument.getArgNumber())
      return;
  SmallVector<Value> shape = frame.shape(init);
  Point point(shape.size(), lanes.indexLanes(0));
  std::function<void(size_t)> walk = [&](size_t depth) {
    if (depth == shape.size()) {
      store(lanes, buffer, point, evaluator.evaluate(init, point));
    } else if (depth + 1 < shape.size()) {
      lanes.loop(lanes.index(0), shape[depth], 1, [&](Value iv) {
        point[depth] = Lanes::uniform(iv);
        walk(depth + 1);
      });
    } else {
      vectorLoop(lanes.index(0), shape[depth], false, false, {},
                 [&](Lanes index, ValueRange) {
                   point[depth] = index;
                   walk(depth + 1);
                   return Values();
                 });
    }
  };
  walk(0);
}

void GroupEmitter::emitScatter(Nest &nest) {
  for (Buffer &target : targets[&nest])
    scatterInto(nest, target);
  if (!targets[&nest].empty())
    return;
  Buffer buffer = kept[nest.value];
  buffer.strides.pop_back();
  scatterInto(nest, buffer);
}

void GroupEmitter::scatterInto(Nest &nest, const Buffer &buffer) {
  auto scatter = cast<ir::ScatterOp>(nest.op);
  copyInit(nest, buffer);
  Block &body = scatter.getBody().front();
  Value updates = scatter.getUpdates();
  SmallVector<Value> shape = frame.shape(updates);
  Type element = buffer.element;
  Point point(shape.size(), lanes.indexLanes(0));
  std::function<void(size_t)> walk = [&](size_t depth) {
    if (depth < shape.size()) {
      lanes.loop(lanes.index(0), shape[depth], 1, [&](Value iv) {
        point[depth] = Lanes::uniform(iv);
        walk(depth + 1);
      });
      return;
    }
    // The position does not depend on the current element, so a first round
    // with any element finds it.
    SmallVector<Lanes> arguments = point;
    arguments.push_back(evaluator.zero(element));
    arguments.push_back(evaluator.evaluate(updates, point));
    SmallVector<Lanes> yielded = evaluator.evaluateRegion(body, arguments);
    SmallVector<Lanes> position(yielded.begin(), yielded.end() - 1);
    if (!body.getArgument(shape.size()).use_empty()) {
      arguments[shape.size()] = load(lanes, buffer, position);
      yielded = evaluator.evaluateRegion(body, arguments);
    }
    store(lanes, buffer, position, yielded.back());
  };
  walk(0);
}

} // namespace codegen
} // namespace anabranch
