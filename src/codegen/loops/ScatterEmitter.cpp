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
    // The last dimension is that of lanes, which a scatter has not.
    Buffer buffer = storage.scratchOf(nest.value);
    buffer.strides.pop_back();
    scatterInto(buffer);
  }
  storage.bindResult(nest);
}

/// The elements that no update touches; they are there already when the
/// argument itself is updated.
void ScatterEmitter::copyInit(const Buffer &buffer) {
  auto scatter = cast<ir::ScatterOp>(nest.op);
  Value init = scatter.getInit();
  auto argument = dyn_cast<BlockArgument>(init);
  for (Destination &destination : nest.destinations)
    if (argument && destination.path.empty() &&
        inPlaceArgument(context.model.source, destination.result) ==
            argument.getArgNumber())
      return;
  SmallVector<Value> shape = context.frame.shape(init);
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

void ScatterEmitter::scatterInto(const Buffer &buffer) {
  auto scatter = cast<ir::ScatterOp>(nest.op);
  copyInit(buffer);
  Block &body = scatter.getBody().front();
  Value updates = scatter.getUpdates();
  SmallVector<Value> shape = context.frame.shape(updates);
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
