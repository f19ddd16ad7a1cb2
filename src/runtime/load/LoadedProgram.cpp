//===- LoadedProgram.cpp - one program that can run -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/LoadedProgram.h"

#include "machine/host/DefaultThreads.h"
#include "runtime/device/Describe.h"
#include "runtime/execute/Arguments.h"
#include "runtime/execute/Execute.h"
#include "runtime/execute/NamedEvents.h"
#include "runtime/load/InitializeBatches.h"
#include "runtime/plan/BuildPlan.h"

namespace anabranch::runtime {
namespace {

/// A frame from the pool, or a new one, with an arena. The destructor gives
/// both back.
class FrameLease {
public:
  FrameLease(const Plan &plan, const SuperKernels &superKernels,
             FramePool &frames, ArenaPool &arenas)
      : frames(frames), arenas(arenas), frame(frames.take()) {
    if (!frame)
      frame = std::make_unique<CallFrame>(plan, plan.main, superKernels);
    if (plan.arenaBytes.slot() < 0 && plan.arenaBytes.value() == 0)
      return;
    arena.reset(arenas.take(frame->lastArena));
    if (!arena)
      arena = std::make_unique<DeviceBuffer>(*plan.device);
    frame->arena = arena.get();
  }
  ~FrameLease() {
    frame->lastArena = std::exchange(frame->arena, nullptr);
    if (arena)
      arenas.give(arena.release());
    frames.give(frame.release());
  }
  FrameLease(const FrameLease &) = delete;
  FrameLease &operator=(const FrameLease &) = delete;
  CallFrame &operator*() const { return *frame; }

private:
  FramePool &frames;
  ArenaPool &arenas;
  std::unique_ptr<CallFrame> frame;
  std::unique_ptr<DeviceBuffer> arena;
};

} // namespace

int LoadedProgram::workers() const {
  if (owner->threads > 0)
    return owner->threads;
  // First: the workers of a machine that has shrunk end.
  int threads = defaultThreads();
  return std::max(threads, machine::DefaultThreads::get().threadsOfCall());
}

Status LoadedProgram::load(const package::ProgramT &program) {
  if (Status s = load(program, *this); !s.ok())
    return s;
  for (const auto &region : program.regions) {
    regions.push_back(std::make_unique<LoadedProgram>(owner));
    if (Status s = regions.back()->load(*region, *this); !s.ok())
      return s;
  }
  return {};
}

Status LoadedProgram::load(const package::ProgramT &program,
                           const RegionPrograms &siblings) {
  plan.regions = &siblings;
  if (Status s = buildPlan(*owner->package, program, *owner->device,
                           owner->host, owner->library.get(), plan);
      !s.ok())
    return s;
  for (const SuperKernel &super : plan.main.supers) {
    auto tasks = std::make_unique<TaskGraphCache>(plan, plan.main, super);
    if (Status s = tasks->load(); !s.ok())
      return s;
    superKernels.push_back(std::move(tasks));
  }
  plan.persistent = owner->persistent;
  watched = std::make_unique<WatchedInputs>(plan);
  if (watched->any() && owner->package->prepared.size())
    return Status(StatusCode::BadPackage,
                  "the package has prepared weights, which calls would change");
  return initialize();
}

Status LoadedProgram::initialize() {
  if (owner->package->prepared.size() || plan.initialize.serial.empty())
    return {};
  DeviceBuffer arena(*plan.device);
  if (watched->any())
    return initialize(watched->independent(), arena);
  // A batch of the initialisation reads at most so many bytes of constants, or
  // one weight.
  constexpr int64_t pieceBytes = int64_t(32) << 20;
  std::vector<Commands> batches = cutByReads(plan, plan.initialize, pieceBytes);
  if (batches.empty())
    return initialize(plan.initialize, arena);
  for (const Commands &batch : batches) {
    if (Status s = initialize(batch, arena); !s.ok())
      return s;
    owner->package->constants.releasePages();
  }
  return {};
}

Status LoadedProgram::initialize(const Commands &commands,
                                 DeviceBuffer &arena) {
  CallFrame frame(plan, commands, {});
  frame.arena = &arena;
  if (Status s = frame.resize(); !s.ok())
    return s;
  trace::Call call(trace::Recorder::active(), plan.info, frame.slots);
  return execute(frame, workers(), call.orNull());
}

/// Runs what depends on watched inputs, unless it has run for these values.
Status LoadedProgram::follow(const InputValue *inputs, size_t inputCount,
                             WatchedInputs::Use &use) const {
  if (!watched->any() || watched->join(inputs, use))
    return {};
  DeviceBuffer arena(*plan.device);
  Commands commands = watched->outdated(inputs);
  watched->beginChange(inputs);
  CallFrame frame(plan, commands, {});
  frame.arena = &arena;
  Status s = bindInputs(frame, inputs, inputCount);
  if (s.ok()) {
    copiedArguments += frame.alignedInputs.count();
    frame.bindCaller();
    trace::Call call(trace::Recorder::active(), plan.info, frame.slots);
    s = execute(frame, workers(), call.orNull());
  }
  if (s.ok())
    watched->endChange(inputs);
  return s;
}

size_t LoadedProgram::cachedBytes() const {
  size_t bytes = frames.bytes();
  for (const auto &region : regions)
    bytes += region->cachedBytes();
  return bytes;
}

void LoadedProgram::trim() const {
  frames.trim();
  for (const auto &tasks : superKernels)
    tasks->trim();
  for (const auto &region : regions)
    region->trim();
}

void LoadedProgram::useFrom(const SharedWeights &donated, UsedRanges &used) {
  for (const auto &region : regions)
    region->useFrom(donated, used);
  for (BufferPlan &buffer : plan.buffers) {
    auto [data, size] = weightBytesOf(plan, buffer);
    if (!data)
      continue;
    if (const void *there = donated.find(data, size)) {
      buffer.kind = BufferKind::Constant;
      buffer.constant = there;
    } else if (buffer.kind == BufferKind::Persistent) {
      auto begin = static_cast<size_t>(buffer.offset.value());
      used.persistent.push_back({begin, begin + size});
    } else {
      used.constants = true;
    }
  }
}

void LoadedProgram::prepareOutputs(CallFrame &frame,
                                   OutputValue *outputs) const {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan &want = plan.outputs[i];
    OutputValue &out = outputs[i];
    out.kind = static_cast<OutputValue::Kind>(want.kind);
    out.input = want.input;
    out.handle = nullptr;
    if (want.kind == package::OutputKind::Scalar)
      out.scalar = valueOf(want.scalar, frame.slots.data());
    if (want.kind != package::OutputKind::Tensor)
      continue;
    const BufferPlan &b = plan.buffers[want.buffer];
    out.tensor.data = nullptr;
    out.tensor.shape = frame.shapeOf(want.buffer);
    out.tensor.strides = frame.stridesOf(want.buffer);
    out.tensor.rank = static_cast<int32_t>(b.shape.size());
    out.tensor.dtype = b.dtype;
  }
}

Status LoadedProgram::bindOutputs(CallFrame &frame,
                                  OutputValue *outputs) const {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    if (plan.outputs[i].kind != package::OutputKind::Tensor)
      continue;
    TensorView &tensor = outputs[i].tensor;
    if (!tensor.data)
      for (int32_t d = 0;; ++d) {
        if (d == tensor.rank)
          return Status(StatusCode::OutOfMemory, "no memory for output " +
                                                     std::to_string(i) + ", " +
                                                     describe(tensor));
        if (tensor.shape[d] == 0)
          break;
      }
    frame.outputs[i] = tensor.data;
    tensor.shape = tensor.strides = nullptr;
  }
  return {};
}

/// Gives the caller the tensors of the host that are outputs.
Status LoadedProgram::handOver(CallFrame &frame, OutputValue *outputs) const {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan &want = plan.outputs[i];
    if (want.kind != package::OutputKind::External)
      continue;
    HostResults::Result &result = frame.hostResults[want.buffer];
    outputs[i].tensor = result.host.tensor;
    // The first output gets the frame's own handle, further ones get copies of
    // it.
    outputs[i].handle = result.handedOver
                            ? plan.host->retain(result.host.handle)
                            : result.host.handle;
    result.handedOver = true;
    if (outputs[i].handle)
      continue;
    takeBack(outputs, i);
    return Status(StatusCode::Unsupported,
                  "the host cannot return one tensor as two outputs");
  }
  return {};
}

/// After an error the caller gets no tensor of the host.
void LoadedProgram::takeBack(OutputValue *outputs, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (plan.outputs[i].kind == package::OutputKind::External)
      plan.host->release(std::exchange(outputs[i].handle, nullptr));
}

Status LoadedProgram::runIn(CallFrame &frame, const InputValue *inputs,
                            size_t inputCount, OutputValue *outputs,
                            size_t outputCount,
                            OutputAllocator &allocator) const {
  if (Status s = bindInputs(frame, inputs, inputCount); !s.ok())
    return s;
  if (outputCount != plan.outputs.size())
    return Status(StatusCode::InvalidArgument,
                  "the program has " + std::to_string(plan.outputs.size()) +
                      " outputs, the caller asks for " +
                      std::to_string(outputCount));
  prepareOutputs(frame, outputs);
  if (Status s = allocator.allocate(outputs, outputCount); !s.ok())
    return s;
  if (Status s = bindOutputs(frame, outputs); !s.ok())
    return s;
  WatchedInputs::Use use;
  if (Status s = follow(inputs, inputCount, use); !s.ok())
    return s;
  frame.bindCaller();
  NamedEvents events(plan.awaits, plan.records);
  trace::Call call(trace::Recorder::active(), plan.info, frame.slots);
  copiedArguments += frame.alignedInputs.count();
  Status s = execute(frame, workers(), call.orNull());
  if (s.ok())
    frame.alignedInputs.writeBack(inputs);
  if (frame.hostResults.areAny()) {
    if (s.ok())
      s = handOver(frame, outputs);
    frame.hostResults.drop();
  }
  return s;
}

Status LoadedProgram::run(const InputValue *inputs, size_t inputCount,
                          OutputValue *outputs, size_t outputCount,
                          OutputAllocator &allocator) const {
  try {
    FrameLease frame(plan, superKernels, frames, *owner->arenas);
    return runIn(*frame, inputs, inputCount, outputs, outputCount, allocator);
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  } catch (const std::exception &e) {
    return Status(StatusCode::Internal, e.what());
  }
}

} // namespace anabranch::runtime
