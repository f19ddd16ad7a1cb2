//===- CallFrame.cpp - the memory of one call -----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/CallFrame.h"

#include "package/verify/Extent.h"
#include "runtime/device/Describe.h"

#include <algorithm>

namespace anabranch::runtime {

static Status outsideArena() {
  return Status(StatusCode::Internal,
                "a buffer lies outside the arena for these sizes");
}

/// The modes that a program can run in. The first is the one that the cost
/// model chose.
static std::vector<ExecutionMode> modesOf(const Commands &commands) {
  if (commands.supers.empty())
    return {ExecutionMode::Shared, ExecutionMode::Serial};
  return {ExecutionMode::Shared, ExecutionMode::MemberByMember,
          ExecutionMode::Serial};
}

CallFrame::CallFrame(const Plan &plan, const Commands &commands,
                     const SuperKernels &supers)
    : plan(plan), commands(commands), slots(static_cast<size_t>(plan.slots), 0),
      inputs(plan.inputs.size()), outputs(plan.outputs.size()),
      alignedInputs(plan, commands), launches(plan, commands),
      hostResults(plan, commands),
      streams(new StreamState[commands.streams.size()]),
      events(new EventState[static_cast<size_t>(commands.events)]),
      scratch(*plan.device), views(static_cast<size_t>(plan.viewNumbers)) {
  for (const auto &super : supers) {
    superKernels.push_back(std::make_unique<SuperKernelRun>());
    taskGraphs.push_back(super.get());
  }
}

ModeTuner &CallFrame::tunerFor(int threads) {
  for (Tuned &known : tuned)
    if (known.threads == threads)
      return known.tuner;
  if (tuned.size() == mostTuned)
    tuned.erase(tuned.begin());
  tuned.push_back({threads, ModeTuner(modesOf(commands))});
  ModeTuner &tuner = tuned.back().tuner;
  tuner.reset(threads);
  return tuner;
}

Status CallFrame::resize() {
  sized = superKernelsAreBound = false;
  tuned.clear();
  if (Status s = checkSizes(); !s.ok())
    return s;
  fillViews();
  if (Status s = fillArgumentViews(); !s.ok())
    return s;
  if (Status s = sizeArena(); !s.ok())
    return s;
  if (Status s = placeAnew(); !s.ok())
    return s;
  if (Status s = launches.resize(slots.data()); !s.ok())
    return s;
  if (!scratch.reserve(launches.scratchBytes))
    return Status::outOfMemory();
  sized = true;
  return {};
}

/// Checks sizes that the program computes. One may be negative, or so large
/// that the bytes of a tensor overflow.
Status CallFrame::checkSizes() const {
  if (plan.slots == 0)
    return {};
  for (const BufferPlan &b : plan.buffers) {
    if (b.runSized)
      continue;
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

void CallFrame::fillViews() {
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

/// Checks that each argument which is a part of a buffer ends within the
/// buffer.
Status CallFrame::fillArgumentViews() {
  for (const ViewPlan &view : commands.views) {
    size_t rank = view.shape.size();
    int64_t *shape = views.data() + view.numbers, *strides = shape + rank;
    for (size_t i = 0; i < rank; ++i) {
      shape[i] = valueOf(view.shape[i], slots.data());
      strides[i] = valueOf(view.strides[i], slots.data());
    }
    const BufferPlan &buffer = plan.buffers[view.buffer];
    size_t item = itemSize(buffer.dtype);
    package::Extent part = package::extentOf(shape, strides, rank, item);
    package::Extent whole =
        package::extentOf(shapeOf(view.buffer), stridesOf(view.buffer),
                          buffer.shape.size(), item);
    if (!package::liesWithin(part, valueOf(view.offset, slots.data()), whole,
                             item))
      return Status(StatusCode::Internal,
                    "a part of a buffer ends past it for these sizes");
  }
  return {};
}

/// `initialize` uses only the static part of the arena, whose places need no
/// call's sizes. It has an arena to itself.
Status CallFrame::sizeArena() {
  bool isCall = &commands == &plan.main;
  int64_t bytes =
      isCall ? valueOf(plan.arenaBytes, slots.data()) : plan.staticArenaBytes;
  if (bytes < 0)
    return Status(StatusCode::Internal, "the arena has a negative size");
  arenaBytes = static_cast<size_t>(bytes);
  return isCall ? checkDynamicRanges(bytes) : Status();
}

Status CallFrame::placeAnew() {
  if (arena && !arena->reserve(arenaBytes)) {
    sized = false;
    return Status::outOfMemory();
  }
  placedAt = arena ? arena->get() : nullptr;
  for (size_t i = 0; i < launches.operands.size(); ++i)
    launches.operands[i] = dataOf(commands.operands[i]);
  return {};
}

/// Checks that ranges of the arena with different offsets are disjoint for
/// these sizes. The proof that commands do not race assumes that.
Status CallFrame::checkDynamicRanges(int64_t arenaBytes) {
  std::vector<std::pair<int64_t, int64_t>> ranges{{0, plan.staticArenaBytes}};
  for (const DynamicRange &range : plan.dynamicRanges) {
    int64_t begin = valueOf(range.offset, slots.data()), end = begin;
    for (const Size &size : range.bytes) {
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

Status CallFrame::bindSuperKernels() {
  if (superKernelsAreBound)
    return {};
  bool areBound = true;
  for (size_t i = 0; i < superKernels.size(); ++i) {
    auto tasks = taskGraphs[i]->find(slots);
    if (!tasks)
      return tasks.takeStatus();
    superKernels[i]->bind(std::move(*tasks));
    areBound = areBound && superKernels[i]->isBound();
  }
  superKernelsAreBound = areBound;
  return {};
}

void CallFrame::bindCaller() {
  for (OperandPatch patch : commands.inputPatches)
    launches.operands[patch.operand] = inputs[patch.source];
  for (OperandPatch patch : commands.outputPatches)
    launches.operands[patch.operand] = outputs[patch.source];
}

void *CallFrame::dataOf(int buffer) const {
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
    // Kernels take no const pointers. The verifier has checked that none writes
    // here.
    return const_cast<void *>(b.constant);
  case BufferKind::External:
    return hostResults[buffer].data;
  }
  return nullptr;
}

TensorView CallFrame::viewOf(int buffer) const {
  const BufferPlan &b = plan.buffers[buffer];
  if (b.runSized) {
    TensorView made = hostResults[buffer].host.tensor;
    made.data = hostResults[buffer].data;
    made.strides = nullptr;
    return made;
  }
  TensorView view;
  view.data = dataOf(buffer);
  view.shape = shapeOf(buffer);
  view.strides = stridesOf(buffer);
  view.rank = static_cast<int32_t>(b.shape.size());
  view.dtype = b.dtype;
  return view;
}

void CallFrame::keep(int buffer, const HostResult &made) {
  hostResults[buffer].host = made;
  hostResults[buffer].data = made.tensor.data;
}

TensorView CallFrame::viewOf(const ViewPlan &part) const {
  TensorView view = viewOf(part.buffer);
  view.data = static_cast<char *>(view.data) +
              valueOf(part.offset, slots.data()) *
                  static_cast<int64_t>(itemSize(view.dtype));
  view.rank = static_cast<int32_t>(part.shape.size());
  view.shape = views.data() + part.numbers;
  view.strides = view.shape + view.rank;
  return view;
}

} // namespace anabranch::runtime
