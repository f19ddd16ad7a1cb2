//===- PositionBlock.cpp - positions that run together --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/loops/PositionBlock.h"

#include "kernels/control/Interleaver.h"
#include "kernels/emit/Transpose.h"
#include "kernels/nests/TileGrid.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

PositionBlock::PositionBlock(LoopContext &context,
                             std::function<void()> emitPosition)
    : context(context), lanes(context.lanes),
      loop(context.group.sharedLoops[context.group.blockLoop]),
      isInterleaved(context.group.transposedLoads.empty() &&
                    !context.group.interleavesStores),
      emitPosition(std::move(emitPosition)),
      number(context.sharedIndex[loop.dims.back()]) {
  Value block = lanes.index(context.group.blockSize);
  first = lanes.mulIndex(number.value, block);
  end = lanes.addIndex(first, block);
  size = sizeOf(context.function, context.group, loop);
  APInt known;
  if (matchPattern(size, m_ConstantInt(&known)))
    rest = known.getSExtValue() % context.group.blockSize;
}

void PositionBlock::around(
    llvm::function_ref<void(llvm::function_ref<void()>)> emitLoops) {
  auto whole = [&] {
    emitLoops([&] { emitWhole(); });
    return Values();
  };
  auto last = [&] {
    emitLoops([&] { emitLast(); });
    return Values();
  };
  if (rest == 0) {
    whole();
  } else {
    Value fits =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sle, end, size);
    lanes.ifElse(fits, TypeRange(), whole, last);
  }
  context.setShared(loop, number);
}

void PositionBlock::emitWhole() {
  const NestGroup &group = context.group;
  if (lanes.mask && !isInterleaved)
    emitSingly();
  else if (!group.transposedLoads.empty())
    emitTransposed();
  else if (group.interleavesStores)
    emitWithWholeStores();
  else
    emitInterleaved(group.blockSize);
}

void PositionBlock::emitLast() {
  // A loop over these would hold what they share in registers, each for one or
  // two positions.
  if (isInterleaved && rest)
    emitInterleaved(*rest);
  else
    emitSingly();
}

void PositionBlock::emitSingly() {
  lanes.loop(first, lanes.minIndex(end, size), 1, [&](Value position) {
    context.setShared(loop, Lanes::uniform(position));
    emitPosition();
  });
}

namespace {
/// The elements of a transposed load at one position.
struct Loaded {
  Value tensor;
  SmallVector<Lanes> index;
  Lanes value;
};
} // namespace

void PositionBlock::emitTransposed() {
  const NestGroup &group = context.group;
  ArrayRef<TransposedLoad> loads = group.transposedLoads;
  context.setShared(loop, Lanes::uniform(first));
  auto indexOf = [&](const TransposedLoad &load) {
    return llvm::map_to_vector(
        load.dims, [&](unsigned dim) { return context.sharedIndex[dim]; });
  };
  SmallVector<SmallVector<Lanes>> columns;
  for (const TransposedLoad &load : loads)
    columns.push_back(loadTransposed(
        lanes, context.function.argument(load.tensor.getArgNumber()),
        indexOf(load), load.along));
  for (int64_t i = 0; i < group.width; ++i) {
    LaneBuilder::Scope scope(lanes);
    context.setShared(loop,
                      Lanes::uniform(lanes.addIndex(first, lanes.index(i))));
    SmallVector<Loaded> loaded;
    for (auto [load, values] : llvm::zip(loads, columns))
      loaded.push_back({load.tensor, indexOf(load), values[i]});
    for (const TransposedLoad &transposed : loads) {
      Buffer buffer =
          context.function.argument(transposed.tensor.getArgNumber());
      Value tensor = transposed.tensor;
      LaneBuilder &builder = lanes;
      context.evaluator.bind(tensor, [&builder, buffer, tensor,
                                      loaded](ArrayRef<Lanes> index) {
        for (const Loaded &entry : loaded)
          if (entry.tensor == tensor && ArrayRef<Lanes>(entry.index) == index)
            return entry.value;
        return load(builder, buffer, index);
      });
    }
    emitPosition();
  }
}

void PositionBlock::emitInterleaved(int64_t positions) {
  Interleaver interleaver(lanes.builder);
  for (int64_t i = 0; i < positions; ++i)
    interleaver.add([&] {
      Value position = lanes.addIndex(first, lanes.index(i));
      context.setShared(loop, Lanes::uniform(position));
      emitPosition();
    });
  interleaver.finish();
}

void PositionBlock::emitWithWholeStores() {
  SmallVector<PendingStore> pending;
  context.pending = &pending;
  int64_t size = context.group.blockSize;
  for (int64_t i = 0; i < size; ++i) {
    Value position = lanes.addIndex(first, lanes.index(i));
    context.setShared(loop, Lanes::uniform(position));
    emitPosition();
  }
  context.pending = nullptr;
  // Each position has written to the same places, in the same order.
  size_t places = pending.size() / size;
  for (size_t place = 0; place < places; ++place) {
    SmallVector<PendingStore> stores;
    for (int64_t i = 0; i < size; ++i)
      stores.push_back(pending[i * places + place]);
    storeInterleaved(lanes, stores);
  }
}

} // namespace kernels
} // namespace anabranch
