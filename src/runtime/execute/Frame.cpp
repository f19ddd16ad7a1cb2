//===- Frame.cpp - the memory of one call ---------------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "runtime/execute/Frame.h"

#include "package/verify/Extent.h"
#include "runtime/load/Describe.h"

#include <algorithm>

namespace anabranch::runtime {

static Status outsideArena() {
  return Status(StatusCode::Internal,
                "a buffer lies outside the arena for these sizes");
}

bool Block::suffices(size_t wanted) {
  constexpr size_t slack = size_t(16) << 20;
  constexpr int patience = 64;
  if (wanted > size)
    return false;
  timesTooLarge = size / 4 > wanted + slack ? timesTooLarge + 1 : 0;
  return timesTooLarge < patience;
}

bool Block::reserve(size_t wanted) {
  if (suffices(wanted))
    return true;
  reset();
  if (wanted == 0)
    return true;
  memory = device.allocate(wanted);
  size = memory ? wanted : 0;
  return memory != nullptr;
}

void Block::reset() {
  if (memory)
    device.release(memory, size);
  memory = nullptr;
  size = 0;
  timesTooLarge = 0;
}

/// What a program can be run in; the model of costs has chosen the first.
static std::vector<ExecutionMode> modesOf(const Commands &commands) {
  if (commands.supers.empty())
    return {ExecutionMode::Shared, ExecutionMode::Serial};
  return {ExecutionMode::Shared, ExecutionMode::MemberByMember,
          ExecutionMode::Serial};
}

Frame::Frame(const Plan &plan, const Commands &commands)
    : plan(plan), commands(commands), slots(static_cast<size_t>(plan.slots), 0),
      inputs(plan.inputs.size()), outputs(plan.outputs.size()),
      operands(commands.operands.size()), sizes(commands.sizes.size()),
      tiles(commands.launches.size()), scratch(*plan.device),
      results(plan.buffers.size()),
      streams(new StreamState[commands.streams.size()]),
      events(new EventState[static_cast<size_t>(commands.events)]),
      tuner(modesOf(commands)), views(static_cast<size_t>(plan.viewNumbers)) {
  for (const CallPlan &call : commands.calls) {
    // Lists point into the same array, which never moves again.
    arguments.push_back(call.arguments);
    std::vector<HostArgument> &list = arguments.back();
    for (size_t i = 0; i < list.size(); ++i)
      if (call.firstItem[i] >= 0)
        list[i].items = list.data() + call.firstItem[i];
    fresh.resize(std::max(fresh.size(), call.results.size()));
  }
  for (const SuperKernel &super : commands.supers)
    supers.push_back(std::make_unique<SuperRun>(*super.plan));
}

Frame::~Frame() { dropResults(); }

ModeTuner &Frame::tunerFor(int threads) {
  if (threads != tunedThreads) {
    tuner.reset();
    tunedThreads = threads;
  }
  return tuner;
}

Status Frame::resize() {
  sized = false;
  tuner.reset();
  if (Status s = checkSizes(); !s.ok())
    return s;
  fillViews();
  if (Status s = sizeArena(); !s.ok())
    return s;
  if (Status s = placeAnew(); !s.ok())
    return s;
  for (size_t i = 0; i < sizes.size(); ++i)
    sizes[i] = valueOf(commands.sizes[i], slots.data());
  if (Status s = planLaunches(); !s.ok())
    return s;
  sized = true;
  return {};
}

/// What is computed of the sizes of a call may be negative, or so large that
/// its bytes overflow.
Status Frame::checkSizes() const {
  if (plan.slots == 0)
    return {};
  for (const BufferPlan &b : plan.buffers) {
    auto bytes = static_cast<int64_t>(itemSize(b.dtype));
    bool fits = true;
    for (const Size &size : b.shape) {
      int64_t value = valueOf(size, slots.data());
      fits &= value >= 0 && !__builtin_mul_overflow(
                                bytes, std::max<int64_t>(value, 1), &bytes);
    }
    if (fits && bytes < int64_t(1) << 56)
      continue;
    std::vector<int64_t> shape;
    for (const Size &size : b.shape)
      shape.push_back(valueOf(size, slots.data()));
    return Status(StatusCode::InvalidArgument,
                  "for these arguments a tensor would have the impossible "
                  "shape " +
                      describe(shape.data(), shape.size()));
  }
  return {};
}

void Frame::fillViews() {
  for (const BufferPlan &b : plan.buffers) {
    if (b.view < 0)
      continue;
    size_t rank = b.shape.size();
    int64_t *shape = views.data() + b.view, *strides = shape + rank;
    int64_t dense = 1;
    for (size_t i = rank; i-- > 0;) {
      shape[i] = valueOf(b.shape[i], slots.data());
      strides[i] =
          b.strides.empty() ? dense : valueOf(b.strides[i], slots.data());
      if (__builtin_mul_overflow(dense, std::max<int64_t>(shape[i], 1), &dense))
        dense = 0;
    }
  }
}

/// `initialize` uses what has a place without a call; it has the program's
/// arena to itself too.
Status Frame::sizeArena() {
  bool isCall = &commands == &plan.main;
  int64_t bytes =
      isCall ? valueOf(plan.arenaBytes, slots.data()) : plan.staticArenaBytes;
  if (bytes < 0)
    return Status(StatusCode::Internal, "the arena has a negative size");
  arenaBytes = static_cast<size_t>(bytes);
  return isCall ? checkArenaParts(bytes) : Status();
}

Status Frame::placeAnew() {
  if (arena && !arena->reserve(arenaBytes)) {
    sized = false;
    return Status::outOfMemory();
  }
  placedAt = arena ? arena->get() : nullptr;
  for (size_t i = 0; i < operands.size(); ++i)
    operands[i] = dataOf(commands.operands[i]);
  return {};
}

/// The proof that commands do not race holds if parts of the arena with
/// different offsets are disjoint.
Status Frame::checkArenaParts(int64_t arenaBytes) {
  std::vector<std::pair<int64_t, int64_t>> ranges{{0, plan.staticArenaBytes}};
  for (const ArenaPart &part : plan.arenaParts) {
    int64_t begin = valueOf(part.offset, slots.data()), end = begin;
    for (const Size &size : part.bytes) {
      int64_t bytes = valueOf(size, slots.data()), last;
      if (begin < 0 || bytes < 0 || __builtin_add_overflow(begin, bytes, &last))
        return outsideArena();
      end = std::max(end, last);
    }
    if (end > begin)
      ranges.push_back({begin, end});
  }
  std::sort(ranges.begin(), ranges.end());
  if (ranges.back().second > arenaBytes)
    return outsideArena();
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      return Status(StatusCode::Internal,
                    "parts of the arena overlap for these sizes");
  return {};
}

Status Frame::planLaunches() {
  sharedTiles = 0;
  scratchBytes = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const LaunchPlan &launch = commands.launches[i];
    anabranch_kernel_plan grid{0, 0};
    launch.kernel.plan(sizes.data() + launch.firstSize, &grid);
    if (grid.tiles < 0 || grid.scratch_bytes < 0 || grid.tiles >> 32)
      return Status(StatusCode::Internal, "a kernel has an impossible grid");
    tiles[i] = grid.tiles;
    if (grid.tiles > 1)
      sharedTiles += grid.tiles;
    scratchBytes =
        std::max(scratchBytes, static_cast<size_t>(grid.scratch_bytes));
  }
  // Launches of different lanes run beside each other, whatever their tiles.
  for (const SuperKernel &super : commands.supers)
    if (super.lanes > 1)
      sharedTiles += super.launchCount;
  return scratch.reserve(scratchBytes) ? Status() : Status::outOfMemory();
}

void Frame::bindCaller() {
  for (OperandPatch patch : commands.inputPatches)
    operands[patch.operand] = inputs[patch.source];
  for (OperandPatch patch : commands.outputPatches)
    operands[patch.operand] = outputs[patch.source];
}

void *Frame::dataOf(int buffer) const {
  const BufferPlan &b = plan.buffers[buffer];
  switch (b.kind) {
  case BufferKind::Input:
    return inputs[b.index];
  case BufferKind::Output:
    return outputs[b.index];
  case BufferKind::Arena:
    return arena ? static_cast<char *>(arena->get()) +
                       valueOf(b.offset, slots.data())
                 : nullptr;
  case BufferKind::Persistent:
    return static_cast<char *>(plan.persistent) + b.offset.value();
  case BufferKind::Constant:
    // Kernels take no const pointers; the verifier sees that none writes here.
    return const_cast<void *>(b.constant);
  case BufferKind::External:
    return results[buffer].data;
  }
  return nullptr;
}

TensorView Frame::viewOf(int buffer) const {
  const BufferPlan &b = plan.buffers[buffer];
  TensorView view;
  view.data = dataOf(buffer);
  view.shape = shapeOf(buffer);
  view.strides = stridesOf(buffer);
  view.rank = static_cast<int32_t>(b.shape.size());
  view.dtype = b.dtype;
  return view;
}

} // namespace anabranch::runtime
