//===- ScatterEmitter.cpp - elements written where data says --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/scatters/ScatterEmitter.h"

#include "kernels/control/VectorLoop.h"
#include "kernels/nests/ScatterDims.h"
#include "kernels/scatters/ScatterRows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// A row of so many vectors has no loop.
static constexpr int64_t shortRow = 8;

ScatterEmitter::ScatterEmitter(LoopContext &context, NestStorage &storage,
                               LoopNest &nest, const TilePart &part,
                               const std::optional<RangeLists> &lists)
    : context(context), storage(storage), nest(nest), part(part), lists(lists),
      scatter(cast<ir::ScatterOp>(nest.op)), evaluator(context.evaluator),
      lanes(context.lanes) {
  const NestGroup &group = context.group;
  if (group.rangedLoop >= 0)
    ranged = group.rangedLoop;
  if (group.lanesInside)
    inside = nest.loopOfShared(group.sharedLoops[group.laneLoop].dims.back());
  Value updates = scatter.getUpdates();
  sharedAs.resize(cast<RankedTensorType>(updates.getType()).getRank());
  for (auto [loop, dim] : llvm::enumerate(updatedAlong(scatter)))
    if (nest.loops[loop].shared >= 0)
      sharedAs[*dim] = loop;
}

void ScatterEmitter::emit() {
  for (const Buffer &buffer : storage.targetsOf(nest))
    scatterInto({buffer, /*isScratch=*/false});
  if (storage.targetsOf(nest).empty())
    scatterInto({storage.scratchOf(nest.value), /*isScratch=*/true});
  storage.bindResult(nest);
}

Point ScatterEmitter::indexIn(const Target &target,
                              ArrayRef<Lanes> position) const {
  return target.isScratch ? storage.scratchIndex(nest, position)
                          : Point(position);
}

void ScatterEmitter::overLanes(bool inVectors,
                               llvm::function_ref<void(Lanes)> body) {
  const NestGroup &group = context.group;
  int64_t width = inVectors ? group.width : 1;
  auto size = context.model.knownSize(group, group.sharedLoops[group.laneLoop]);
  VectorLoop vectors{part.firstLane, part.lastLane, width,
                     size && *size % width == 0};
  vectors.emit(lanes, {}, [&](Lanes index, ValueRange) {
    body(index);
    return Values();
  });
}

void ScatterEmitter::overDimension(Value size, bool inVectors,
                                   llvm::function_ref<void(Lanes)> body) {
  Value zero = lanes.index(0);
  if (!inVectors)
    return lanes.loop(zero, size, 1,
                      [&](Value iv) { body(Lanes::uniform(iv)); });
  int64_t width = context.group.width;
  APInt known;
  bool isExact = matchPattern(size, m_ConstantInt(&known)) &&
                 known.getSExtValue() % width == 0;
  if (isExact && known.getSExtValue() <= shortRow * width) {
    // The vectors share what does not depend on the column.
    LaneBuilder::MaskGuard guard(lanes, width, Value());
    for (int64_t first = 0; first < known.getSExtValue(); first += width)
      body(width == 1 ? Lanes::uniform(lanes.index(first))
                      : Lanes::linear(lanes.index(first), 1, width));
    return;
  }
  VectorLoop vectors{zero, size, width, isExact};
  vectors.emit(lanes, {}, [&](Lanes index, ValueRange) {
    body(index);
    return Values();
  });
}

/// Whether the argument itself is updated.
bool ScatterEmitter::isInPlace() {
  auto argument = dyn_cast<BlockArgument>(scatter.getInit());
  return argument &&
         llvm::any_of(nest.destinations, [&](const Destination &destination) {
           return destination.path.empty() &&
                  inPlaceArgument(context.model.source, destination.result) ==
                      argument.getArgNumber();
         });
}

/// Copies the elements that no update writes. If the argument itself is
/// updated, it has them already.
void ScatterEmitter::copyInit(const Target &target) {
  if (isInPlace())
    return;
  Value init = scatter.getInit();
  SmallVector<Value> shape = context.function.shape(init);
  Point point = context.pointOf(nest);
  std::function<void(size_t)> walk = [&](size_t depth) {
    auto next = [&](Lanes index) {
      point[depth] = index;
      walk(depth + 1);
    };
    if (depth == shape.size())
      store(lanes, target.buffer, indexIn(target, point),
            evaluator.evaluate(init, point));
    else if (inside == depth)
      overLanes(/*inVectors=*/true, next);
    else if (nest.loops[depth].shared >= 0)
      walk(depth + 1);
    else if (ranged == depth)
      lanes.loop(part.firstOuter, part.lastOuter, 1,
                 [&](Value iv) { next(Lanes::uniform(iv)); });
    else
      overDimension(shape[depth],
                    depth + 1 == shape.size() && context.group.laneLoop < 0,
                    next);
  };
  walk(0);
}

/// Whether the scatter has a loop of its own over this dimension of the
/// updates.
bool ScatterEmitter::loopsOver(unsigned dim) const {
  if (lists && lists->isNumbered(dim))
    return false;
  return !sharedAs[dim] || sharedAs[dim] == inside;
}

std::optional<ScatterEmitter::Row> ScatterEmitter::findRow() const {
  const NestGroup &group = context.group;
  unsigned dim = sharedAs.size();
  while (dim > 0 && !loopsOver(dim - 1))
    --dim;
  if (dim-- == 0)
    return std::nullopt;
  if (!sharedAs[dim]) {
    auto row = rowOf(scatter);
    bool isRow = row && group.laneLoop < 0 && dim + 1 == sharedAs.size();
    return isRow ? std::optional(Row{dim, *row}) : std::nullopt;
  }
  auto along = updatedAlong(scatter);
  // Of dimensions that run as one, none may move the others.
  for (unsigned shared : group.sharedLoops[group.laneLoop].dims) {
    unsigned loop = *nest.loopOfShared(shared);
    if (movesElsewhere(scatter, *along[loop], loop))
      return std::nullopt;
  }
  return Row{dim, *inside};
}

void ScatterEmitter::scatterInto(const Target &target) {
  if (!lists || target.isScratch || !ScatterRows::fits(context, nest))
    return scatterOneByOne(target);
  lanes.ifElse(
      lists->areOfRows(), {},
      [&] {
        ScatterRows(context, nest, *lists, isInPlace())
            .emit(part, target.buffer);
        return Values();
      },
      [&] {
        scatterOneByOne(target);
        return Values();
      });
}

void ScatterEmitter::scatterOneByOne(const Target &target) {
  copyInit(target);
  Point shared = context.pointOf(nest), point;
  for (std::optional<unsigned> loop : sharedAs)
    point.push_back(loop ? shared[*loop] : lanes.indexLanes(0));
  if (lists)
    lists->forEach(part, point, [&] { updateFrom(target, point, 0); });
  else
    updateFrom(target, point, 0);
}

/// Emits the loops over the updates' dimensions from `depth` on.
void ScatterEmitter::updateFrom(const Target &target, Point &point,
                                size_t depth) {
  if (depth == point.size()) {
    Point position = positionOf(evaluator, scatter, point);
    return ifInRange(position, [&] { update(target, point, position); });
  }
  if (!loopsOver(depth))
    return updateFrom(target, point, depth + 1);
  auto loop = [&](bool inVectors, llvm::function_ref<void(Lanes)> body) {
    if (sharedAs[depth])
      overLanes(inVectors, body);
    else
      overDimension(context.function.dim(scatter.getUpdates(), depth),
                    inVectors, body);
  };
  std::optional<Row> row = findRow();
  if (!row || row->dim != depth)
    return loop(/*inVectors=*/false, [&](Lanes index) {
      point[depth] = index;
      updateFrom(target, point, depth + 1);
    });
  Point position = positionOf(evaluator, scatter, point);
  ifInRange(position, [&] {
    loop(/*inVectors=*/true, [&](Lanes index) {
      point[depth] = position[row->target] = index;
      update(target, point, position);
    });
  });
}

/// Emits the body for the updates of this tile.
void ScatterEmitter::ifInRange(ArrayRef<Lanes> position,
                               llvm::function_ref<void()> body) {
  if (!ranged)
    return body();
  Value at = lanes.vector(position[*ranged]);
  Value after =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, at, part.firstOuter);
  Value before =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, at, part.lastOuter);
  lanes.ifThen(lanes.make<arith::AndIOp>(after, before), body);
}

void ScatterEmitter::update(const Target &target, ArrayRef<Lanes> point,
                            ArrayRef<Lanes> position) {
  Block &body = scatter.getBody().front();
  Point index = indexIn(target, position);
  SmallVector<Lanes> arguments(point);
  arguments.push_back(body.getArgument(point.size()).use_empty()
                          ? evaluator.zero(target.buffer.element)
                          : load(lanes, target.buffer, index));
  arguments.push_back(evaluator.evaluate(scatter.getUpdates(), point));
  store(lanes, target.buffer, index, evaluator.evaluateLast(body, arguments));
}

} // namespace kernels
} // namespace anabranch
