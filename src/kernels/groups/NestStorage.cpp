//===- NestStorage.cpp - where the values of nests are kept ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/groups/NestStorage.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

NestStorage::NestStorage(LoopContext &context, Value scratchPointer)
    : context(context), lanes(context.lanes) {
  Scratch plan = planScratch(context.function, context.group);
  for (LoopNest *nest : context.group.nests)
    for (Destination &destination : nest->destinations)
      targets[nest].push_back(destinationBuffer(context.function, destination));
  for (ScratchPart &part : plan.parts)
    addScratch(part, scratchPointer);
  rows = addBytes(lanes, scratchPointer, plan.rows);
}

void NestStorage::addScratch(const ScratchPart &part, Value scratchPointer) {
  const NestGroup &group = context.group;
  const LoopNest &nest = *part.nest;
  Buffer buffer;
  buffer.element = getElementTypeOrSelf(part.value.getType());
  buffer.pointer = addBytes(lanes, scratchPointer, part.offset);
  // A shared dimension has stride zero, since only one position exists at a
  // time. The lanes of a shared loop are neighbours, in a dimension of their
  // own.
  int64_t rank = cast<RankedTensorType>(nest.value.getType()).getRank();
  buffer.strides.assign(rank + 1, lanes.index(0));
  buffer.strides[rank] = lanes.index(1);
  Value stride = lanes.index(group.laneLoop >= 0 ? group.width : 1);
  SmallVector<unsigned> dims = innerDims(nest);
  for (unsigned dim : llvm::reverse(dims)) {
    buffer.strides[dim] = stride;
    stride = lanes.mulIndex(stride, context.function.dim(nest.value, dim));
  }
  scratch[part.value] = buffer;
}

ArrayRef<Buffer> NestStorage::targetsOf(const LoopNest &nest) const {
  auto found = targets.find(&nest);
  return found == targets.end() ? ArrayRef<Buffer>() : found->second;
}

Point NestStorage::scratchIndex(const LoopNest &nest, ArrayRef<Lanes> index) {
  Point point = llvm::to_vector(index);
  for (auto [dim, loop] : llvm::enumerate(nest.resultLoops))
    if (nest.loops[loop].shared >= 0)
      point[dim] = lanes.indexLanes(0);
  bool hasLanes = context.group.laneLoop >= 0 && lanes.width > 1;
  point.push_back(hasLanes ? Lanes::linear(lanes.index(0), 1, lanes.width)
                           : lanes.indexLanes(0));
  return point;
}

void NestStorage::deliver(LoopNest &nest, Value result, ArrayRef<Lanes> index,
                          Lanes value) {
  if (result == nest.value)
    for (const Buffer &target : targetsOf(nest)) {
      if (context.pending)
        context.pending->push_back({target, Point(index), value});
      else
        store(lanes, target, index, value);
    }
  auto found = scratch.find(result);
  if (found != scratch.end())
    store(lanes, found->second, scratchIndex(nest, index), value);
}

void NestStorage::bindResult(LoopNest &nest) {
  if (!nest.isRead || nest.kind == LoopNest::Kind::Write)
    return;
  if (!targetsOf(nest).empty() && !innerDims(nest).empty())
    return context.evaluator.bind(nest.value, targetsOf(nest)[0]);
  for (Value value : valuesOf(nest)) {
    auto found = scratch.find(value);
    if (found == scratch.end())
      continue;
    Buffer buffer = found->second;
    const LoopNest *maker = &nest;
    context.evaluator.bind(value, [this, buffer, maker](ArrayRef<Lanes> index) {
      return load(lanes, buffer, scratchIndex(*maker, index));
    });
  }
}

} // namespace kernels
} // namespace anabranch
