//===- ScatterEmitter.cpp - elements written where data says --------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/loops/ScatterEmitter.h"

#include "codegen/loops/VectorLoop.h"
#include "ir/Anabranch.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

void ScatterEmitter::emit() {
  for (const Buffer &target : storage.targetsOf(nest))
    scatterInto(target);
  if (storage.targetsOf(nest).empty()) {
    // The last dimension of scratch memory is that of the lanes, which a
    // scatter does not have.
    Buffer buffer = storage.scratchOf(nest.value);
    buffer.strides.pop_back();
    scatterInto(buffer);
  }
  storage.bindResult(nest);
}

/// Copies the elements that no update writes. If the argument itself is
/// updated, it has them already.
void ScatterEmitter::copyInit(const Buffer &buffer) {
  auto scatter = cast<ir::ScatterOp>(nest.op);
  Value init = scatter.getInit();
  auto argument = dyn_cast<BlockArgument>(init);
  for (Destination &destination : nest.destinations)
    if (argument && destination.path.empty() &&
        inPlaceArgument(context.model.source, destination.result) ==
            argument.getArgNumber())
      return;
  SmallVector<Value> shape = context.function.shape(init);
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
      VectorLoop vectors{lanes.index(0), shape[depth], context.group.width};
      vectors.emit(lanes, {}, [&](Lanes index, ValueRange) {
        point[depth] = index;
        walk(depth + 1);
        return Values();
      });
    }
  };
  walk(0);
}

static bool dependsOn(Value value, Value argument) {
  if (value == argument)
    return true;
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](Value operand) {
           return dependsOn(operand, argument);
         });
}

/// Whether the updates along the last dimension write neighbours in a row of
/// the target, each another one. Lanes may then run along it.
static bool scattersRows(ir::ScatterOp scatter) {
  Block &body = scatter.getBody().front();
  int64_t rank =
      cast<RankedTensorType>(scatter.getUpdates().getType()).getRank();
  ValueRange position =
      ValueRange(body.getTerminator()->getOperands()).drop_back();
  if (rank == 0 || position.empty())
    return false;
  Value last = body.getArgument(rank - 1);
  return position.back() == last &&
         llvm::none_of(position.drop_back(),
                       [&](Value index) { return dependsOn(index, last); });
}

void ScatterEmitter::scatterInto(const Buffer &buffer) {
  auto scatter = cast<ir::ScatterOp>(nest.op);
  copyInit(buffer);
  SmallVector<Value> shape = context.function.shape(scatter.getUpdates());
  bool byRows = scattersRows(scatter);
  Point point(shape.size(), lanes.indexLanes(0));
  std::function<void(size_t)> walk = [&](size_t depth) {
    if (depth == shape.size()) {
      update(buffer, point);
    } else if (byRows && depth + 1 == shape.size()) {
      VectorLoop vectors{lanes.index(0), shape[depth], context.group.width};
      vectors.emit(lanes, {}, [&](Lanes index, ValueRange) {
        point[depth] = index;
        update(buffer, point);
        return Values();
      });
    } else {
      lanes.loop(lanes.index(0), shape[depth], 1, [&](Value iv) {
        point[depth] = Lanes::uniform(iv);
        walk(depth + 1);
      });
    }
  };
  walk(0);
}

void ScatterEmitter::update(const Buffer &buffer, ArrayRef<Lanes> point) {
  auto scatter = cast<ir::ScatterOp>(nest.op);
  Block &body = scatter.getBody().front();
  // The position does not depend on the current element, so a first evaluation
  // with any element finds it.
  SmallVector<Lanes> arguments(point);
  arguments.push_back(evaluator.zero(buffer.element));
  arguments.push_back(evaluator.evaluate(scatter.getUpdates(), point));
  SmallVector<Lanes> yielded = evaluator.evaluateRegion(body, arguments);
  SmallVector<Lanes> position(yielded.begin(), yielded.end() - 1);
  if (!body.getArgument(point.size()).use_empty()) {
    arguments[point.size()] = load(lanes, buffer, position);
    yielded = evaluator.evaluateRegion(body, arguments);
  }
  store(lanes, buffer, position, yielded.back());
}

} // namespace codegen
} // namespace anabranch
