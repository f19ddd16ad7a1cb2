//===- RowOrderSums.cpp - reductions that go row by row -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/RowOrderSums.h"

#include "kernels/nests/RowOrder.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

RowOrderSums::RowOrderSums(LoopContext &context, NestStorage &storage,
                           const FusedNests &nests, Value memory,
                           Value lanesOfLevel)
    : context(context), storage(storage), nests(nests), lanes(context.lanes),
      memory(memory), lanesOfLevel(lanesOfLevel), sums(context, nests) {}

//===----------------------------------------------------------------------===//
// Partial results in memory
//===----------------------------------------------------------------------===//

SmallVector<Type> RowOrderSums::elements() const {
  SmallVector<Type> types;
  for (const LoopNest *nest : nests.members)
    for (Value value : valuesOf(*nest))
      types.push_back(getElementTypeOrSelf(value.getType()));
  return types;
}

int64_t RowOrderSums::bytesOfLevel() const {
  int64_t bytes = 0;
  for (const LoopNest *nest : nests.members)
    bytes += bytesOfValues(*nest);
  return bytes;
}

int64_t RowOrderSums::bytesOfLane() const {
  return bytesOfLevel() * context.group.rowLevels;
}

Buffer RowOrderSums::bufferOf(int64_t level, size_t value) {
  SmallVector<Type> types = elements();
  int64_t before = level * bytesOfLevel();
  for (Type type : ArrayRef(types).take_front(value))
    before += elementBytes(type);
  Value offset = lanes.mulIndex(lanesOfLevel, lanes.index(before));
  Buffer buffer;
  buffer.element = types[value];
  buffer.pointer = addBytes(lanes, memory, offset);
  buffer.strides = {lanes.index(1)};
  return buffer;
}

/// The place of these lanes in each level.
static Lanes placeOf(LaneBuilder &lanes, Lanes lane, Value first) {
  return lanes.add(lane, Lanes::uniform(lanes.subIndex(lanes.index(0), first)));
}

Values RowOrderSums::load(int64_t level, Lanes lane) {
  Values values;
  for (size_t i = 0; i < elements().size(); ++i)
    values.push_back(lanes.vector(kernels::load(
        lanes, bufferOf(level, i), {placeOf(lanes, lane, firstLane)})));
  return values;
}

void RowOrderSums::store(int64_t level, Lanes lane, ValueRange values) {
  for (auto [i, value] : llvm::enumerate(values))
    kernels::store(lanes, bufferOf(level, i), {placeOf(lanes, lane, firstLane)},
                   lanes.wrap(value));
}

void RowOrderSums::clear(int64_t level) {
  forLanes([&](Lanes lane) { store(level, lane, sums.neutral()); });
}

void RowOrderSums::addLevel(int64_t from, int64_t to) {
  forLanes([&](Lanes lane) {
    store(to, lane, sums.combineAll(load(to, lane), load(from, lane)));
  });
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

void RowOrderSums::forLanes(llvm::function_ref<void(Lanes lane)> body) {
  loop->emit(lanes, {}, [&](Lanes lane, ValueRange) {
    body(lane);
    return Values();
  });
}

/// Adds some consecutive rows to the first level.
void RowOrderSums::addAtOnce(Value row, int64_t count) {
  const NestGroup &group = context.group;
  forLanes([&](Lanes lane) {
    context.setShared(group.sharedLoops[group.laneLoop], lane);
    FusedEmitter emitter(context, storage, nests);
    emitter.enter();
    Values added = sums.neutral();
    for (int64_t i = 0; i < count; ++i) {
      Value at = lanes.addIndex(row, lanes.index(i));
      added = emitter.stepAt(nests.inner[0], Lanes::uniform(at), added);
    }
    store(0, lane, sums.combineAll(load(0, lane), added));
  });
}

/// Adds rows to a level, part by part.
void RowOrderSums::addPart(int64_t level, Value low, Value high) {
  int64_t atOnce = context.group.rowsAtOnce, length = atOnce;
  if (level == 0) {
    Value rest = lanes.remIndex(lanes.subIndex(high, low), lanes.index(atOnce));
    Value middle = lanes.subIndex(high, rest);
    lanes.loop(low, middle, atOnce, [&](Value row) { addAtOnce(row, atOnce); });
    if (atOnce > 1)
      lanes.loop(middle, high, 1, [&](Value row) { addAtOnce(row, 1); });
    return;
  }
  for (int64_t i = 0; i < level; ++i)
    length *= partsOfLevel;
  lanes.loop(low, high, length, [&](Value first) {
    clear(level - 1);
    Value end =
        lanes.minIndex(lanes.addIndex(first, lanes.index(length)), high);
    addPart(level - 1, first, end);
    addLevel(level - 1, level);
  });
}

void RowOrderSums::addRows(const VectorLoop &lanesOfTile) {
  loop = &lanesOfTile;
  firstLane = lanesOfTile.low;
  int64_t last = context.group.rowLevels - 1;
  clear(last);
  addPart(last, lanes.index(0), context.tripCount(nests, nests.inner[0]));
}

void RowOrderSums::deliver(Lanes lane) {
  FusedEmitter emitter(context, storage, nests);
  emitter.enter();
  emitter.deliver(load(context.group.rowLevels - 1, lane));
}

} // namespace kernels
} // namespace anabranch
