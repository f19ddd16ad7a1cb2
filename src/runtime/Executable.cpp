//===- Executable.cpp - open a package and run it -------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "anabranch/Executable.h"

#include "package/Reader.h"
#include "runtime/Arguments.h"
#include "runtime/Describe.h"
#include "runtime/Execute.h"
#include "runtime/NamedEvents.h"

namespace anabranch {

OutputAllocator::~OutputAllocator() = default;
HostCalls::~HostCalls() = default;
void *HostCalls::retain(void *) { return nullptr; }
Executable::~Executable() = default;

const char *version() { return ANABRANCH_VERSION; }

namespace runtime {
namespace {

/// A frame out of the cache, or a new one; given back with the object.
class FrameLease {
public:
  FrameLease(const Plan &plan, FrameCache &cache) : cache(cache) {
    frame = cache.take();
    if (!frame)
      frame = new Frame(plan, plan.main);
  }
  ~FrameLease() { cache.give(frame); }
  FrameLease(const FrameLease &) = delete;
  FrameLease &operator=(const FrameLease &) = delete;
  Frame *operator->() const { return frame; }
  Frame &operator*() const { return *frame; }

private:
  FrameCache &cache;
  Frame *frame;
};

class LoadedExecutable : public Executable {
public:
  ~LoadedExecutable() override {
    frames.trim();
    if (plan.persistent)
      plan.device->release(plan.persistent,
                           static_cast<size_t>(plan.persistentBytes));
  }

  Status load(const std::string &path, const OpenOptions &options);

  const std::vector<InputInfo> &inputs() const override { return inputInfos; }
  const std::vector<OutputInfo> &outputs() const override {
    return outputInfos;
  }
  Status run(const InputValue *inputs, size_t inputCount, OutputValue *outputs,
             size_t outputCount, OutputAllocator &allocator) const override;
  size_t kernelCount() const override {
    return package->program.kernels.size();
  }
  size_t launchCount() const override { return plan.main.launches.size(); }
  size_t hostCallCount() const override { return plan.main.calls.size(); }
  size_t cachedBytes() const override {
    return frames.bytes() + static_cast<size_t>(plan.persistentBytes);
  }
  void trim() const override { frames.trim(); }

private:
  Status refuseCalls() const;
  Status initialize();
  void describePlan();
  Status runIn(Frame &frame, const InputValue *inputs, size_t inputCount,
               OutputValue *outputs, size_t outputCount,
               OutputAllocator &allocator) const;
  void prepareOutputs(Frame &frame, OutputValue *outputs) const;
  Status bindOutputs(Frame &frame, OutputValue *outputs) const;
  Status handOver(Frame &frame, OutputValue *outputs) const;
  void takeBack(OutputValue *outputs, size_t count) const;

  int workers() const { return threads > 0 ? threads : defaultThreads(); }

  std::unique_ptr<package::Package> package;
  std::unique_ptr<Library> library;
  Plan plan;
  int threads = 0;
  std::vector<InputInfo> inputInfos;
  std::vector<OutputInfo> outputInfos;
  mutable FrameCache frames;
};

/// The operators of the first few calls, for the reason of a refusal.
std::string calledOperators(const package::ProgramT &program) {
  std::string list;
  int count = 0;
  for (const auto *streams : {&program.initialize, &program.streams})
    for (const auto &stream : *streams)
      for (const auto &command : stream->commands)
        if (const package::CallT *call = command->action.AsCall();
            call && list.find(call->op) == std::string::npos) {
          if (++count > 8)
            return list + ", ...";
          list += (list.empty() ? "" : ", ") + call->op;
        }
  return list;
}

Status LoadedExecutable::load(const std::string &path,
                              const OpenOptions &options) {
  const Device *device = Device::find(options.device);
  if (!device)
    return Status(StatusCode::Unsupported, "there is no device '" +
                                               options.device +
                                               "', only: " + Device::names());
  package::ReadOptions reading;
  reading.checkHashes = options.checkHashes;
  reading.checkCpu = device->computes();
  Expected<std::unique_ptr<package::Package>> read =
      package::readPackage(path, reading);
  if (!read)
    return read.takeStatus();
  package = std::move(*read);
  threads = options.threads;
  if (package->program.needs_libtorch && !options.hostCalls)
    return Status(StatusCode::Unsupported,
                  "the package needs PyTorch for: " +
                      calledOperators(package->program));
  // The null device runs no kernel, but sizes are computed all the same.
  bool wanted = device->computes() || !package->program.sizes_function.empty();
  if (wanted && !package->kernelsPath.empty()) {
    Expected<std::unique_ptr<Library>> loaded =
        Library::load(package->kernelsPath);
    if (!loaded)
      return loaded.takeStatus();
    library = std::move(*loaded);
  }
  if (Status s =
          buildPlan(*package, *device, options.hostCalls, library.get(), plan);
      !s.ok())
    return s;
  describePlan();
  Status initialized = initialize();
  // Hashing has read every constant, and `initialize` what it packs; calls may
  // need few of those bytes again.
  package->constants.releasePages();
  return initialized;
}

Status LoadedExecutable::initialize() {
  if (plan.persistentBytes) {
    plan.persistent =
        plan.device->allocate(static_cast<size_t>(plan.persistentBytes));
    if (!plan.persistent)
      return Status::outOfMemory();
  }
  if (plan.initialize.serial.empty())
    return {};
  Frame frame(plan, plan.initialize);
  if (Status s = frame.resize(); !s.ok())
    return s;
  NamedEvents events(plan.awaits, plan.records);
  trace::Call call(trace::Recorder::active(), plan.info, frame.slots);
  return execute(frame, workers(), call.orNull());
}

std::vector<int64_t> staticNumbers(const std::vector<Size> &sizes) {
  std::vector<int64_t> numbers;
  numbers.reserve(sizes.size());
  for (const Size &size : sizes)
    numbers.push_back(size.slot() < 0 ? size.value() : -1);
  return numbers;
}

std::vector<int64_t> stridesOr(const std::vector<Size> &strides,
                               const std::vector<int64_t> &shape) {
  if (!strides.empty())
    return staticNumbers(strides);
  std::vector<int64_t> dense(shape.size());
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    dense[i] = next;
    next = next < 0 || shape[i] < 0 ? -1 : next * shape[i];
  }
  return dense;
}

void LoadedExecutable::describePlan() {
  for (const InputPlan &input : plan.inputs) {
    InputInfo info;
    info.name = input.name;
    info.isScalar = input.isScalar;
    info.mutated = input.mutated;
    info.dtype = input.dtype;
    info.shape = staticNumbers(input.shape);
    info.strides = stridesOr(input.strides, info.shape);
    inputInfos.push_back(std::move(info));
  }
  for (const OutputPlan &output : plan.outputs) {
    OutputInfo info;
    info.kind = static_cast<OutputValue::Kind>(output.kind);
    info.input = output.input;
    if (output.buffer >= 0) {
      const BufferPlan &b = plan.buffers[output.buffer];
      info.dtype = b.dtype;
      info.shape = staticNumbers(b.shape);
      info.strides = stridesOr(b.strides, info.shape);
    }
    outputInfos.push_back(std::move(info));
  }
}

void LoadedExecutable::prepareOutputs(Frame &frame,
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

Status LoadedExecutable::bindOutputs(Frame &frame, OutputValue *outputs) const {
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

/// Moves the host's tensors that are outputs to the caller.
Status LoadedExecutable::handOver(Frame &frame, OutputValue *outputs) const {
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan &want = plan.outputs[i];
    if (want.kind != package::OutputKind::External)
      continue;
    Frame::Result &result = frame.results[want.buffer];
    outputs[i].tensor = result.host.tensor;
    // The frame's own handle goes to the first output, copies to the others.
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

/// After an error nothing is handed over.
void LoadedExecutable::takeBack(OutputValue *outputs, size_t count) const {
  for (size_t i = 0; i < count; ++i)
    if (plan.outputs[i].kind == package::OutputKind::External)
      plan.host->release(std::exchange(outputs[i].handle, nullptr));
}

Status LoadedExecutable::runIn(Frame &frame, const InputValue *inputs,
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
  frame.bindCaller();
  trace::Call call(trace::Recorder::active(), plan.info, frame.slots);
  Status s = execute(frame, workers(), call.orNull());
  if (!plan.main.calls.empty()) {
    if (s.ok())
      s = handOver(frame, outputs);
    frame.dropResults();
  }
  return s;
}

Status LoadedExecutable::run(const InputValue *inputs, size_t inputCount,
                             OutputValue *outputs, size_t outputCount,
                             OutputAllocator &allocator) const {
  try {
    FrameLease frame(plan, frames);
    return runIn(*frame, inputs, inputCount, outputs, outputCount, allocator);
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  } catch (const std::exception &e) {
    return Status(StatusCode::Internal, e.what());
  }
}

} // namespace
} // namespace runtime

Expected<std::shared_ptr<const Executable>>
Executable::open(const std::string &path, const OpenOptions &options) {
  try {
    trace::Recorder::startFromEnvironment();
    auto executable = std::make_shared<runtime::LoadedExecutable>();
    if (Status s = executable->load(path, options); !s.ok())
      return s;
    return std::shared_ptr<const Executable>(std::move(executable));
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  } catch (const std::exception &e) {
    return Status(StatusCode::Internal, e.what());
  }
}

} // namespace anabranch
