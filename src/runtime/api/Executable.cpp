//===- Executable.cpp - open a package and run it -------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "anabranch/Executable.h"

#include "package/folder/Reader.h"
#include "runtime/execute/Execute.h"
#include "runtime/shapes/GearTable.h"
#include "runtime/shapes/Padding.h"
#include "runtime/workers/Pinning.h"

#include <mutex>

namespace anabranch {

OutputAllocator::~OutputAllocator() = default;
HostCalls::~HostCalls() = default;
void *HostCalls::retain(void *) { return nullptr; }
Executable::~Executable() = default;

const char *version() { return ANABRANCH_VERSION; }

namespace runtime {
namespace {

class LoadedExecutable : public Executable {
public:
  Status load(const std::string &path, const OpenOptions &options);

  const std::vector<InputInfo> &inputs() const override { return inputInfos; }
  const std::vector<OutputInfo> &outputs() const override {
    return outputInfos;
  }
  Status run(const InputValue *inputs, size_t inputCount, OutputValue *outputs,
             size_t outputCount, OutputAllocator &allocator) const override;
  Status add(const std::shared_ptr<const Executable> &other) const override;
  void remove(const Executable &other) const override;
  bool hasProgramFor(const InputValue *inputs, size_t count) const override {
    return currentTable()->isExact(inputs, count);
  }
  uint64_t lastUse() const override;
  size_t kernelCount() const override {
    return shared->package->manifest.kernels.size();
  }
  size_t launchCount() const override {
    const Commands &main = root->getPlan().main;
    size_t others = main.calls.size() + main.copies.size();
    return main.serial.size() - others;
  }
  size_t hostCallCount() const override {
    return root->getPlan().main.calls.size();
  }
  size_t programCount() const override {
    return currentTable()->programs().size();
  }
  size_t cachedBytes() const override;
  const std::string &target() const override { return shared->package->target; }
  const void *preparedWeights() const override { return shared->persistent; }
  void trim() const override {
    for (const auto &program : currentTable()->programs())
      program->trim();
    shared->arenas->trim();
  }

private:
  Status loadShared(const std::string &path, const OpenOptions &options);
  void borrow(const std::vector<std::shared_ptr<LoadedProgram>> &programs,
              const LoadedExecutable &like);
  void describePlan(const Plan &plan);
  std::shared_ptr<const GearTable> currentTable() const {
    return std::atomic_load(&table);
  }
  void publish(Programs programs) const {
    std::atomic_store(&table, std::shared_ptr<const GearTable>(
                                  std::make_shared<GearTable>(programs)));
  }

  std::shared_ptr<LoadedPackage> shared;
  Programs own; ///< those of the package
  std::shared_ptr<const LoadedProgram> root;
  std::vector<InputInfo> inputInfos;
  std::vector<OutputInfo> outputInfos;
  /// Replaced whole; a call keeps the one that it began with.
  mutable std::shared_ptr<const GearTable> table;
  mutable std::atomic<bool> alone{true}; ///< `root` is all there ever was
  mutable std::mutex changing;
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

Status LoadedExecutable::loadShared(const std::string &path,
                                    const OpenOptions &options) {
  const Device *device = Device::find(options.device);
  if (!device)
    return Status(StatusCode::Unsupported, "there is no device '" +
                                               options.device +
                                               "', only: " + Device::names());
  package::ReadOptions reading;
  reading.checkHashes = options.checkHashes;
  reading.checkCpu = device->computes();
  reading.target = options.target;
  Expected<std::unique_ptr<package::Package>> read =
      package::readPackage(path, reading);
  if (!read)
    return read.takeStatus();
  shared = std::make_shared<LoadedPackage>();
  shared->package = std::move(*read);
  if (const auto *like =
          dynamic_cast<const LoadedExecutable *>(options.like.get());
      like && like->shared->device == device) {
    shared->donor = like->shared;
    shared->arenas = like->shared->arenas;
  } else {
    shared->arenas = std::make_shared<ArenaPool>();
  }
  shared->device = device;
  shared->host = options.hostCalls;
  shared->threads = options.threads;
  // The null device runs no kernel, but sizes are computed all the same.
  bool wanted = device->computes();
  for (const package::ProgramT *program : shared->package->programs()) {
    if (program->needs_libtorch && !options.hostCalls)
      return Status(StatusCode::Unsupported, "the package needs PyTorch for: " +
                                                 calledOperators(*program));
    wanted |= !program->sizes_function.empty();
  }
  if (wanted && !shared->package->kernelsPath.empty()) {
    Expected<std::unique_ptr<Library>> loaded =
        Library::load(shared->package->kernelsPath);
    if (!loaded)
      return loaded.takeStatus();
    shared->library = std::move(*loaded);
  }
  const Size *bytes = shared->package->program.persistent_bytes.get();
  shared->persistentBytes = bytes ? static_cast<size_t>(bytes->value()) : 0;
  const package::Mapping &prepared = shared->package->prepared;
  if (prepared.size())
    // Only `initialize` writes there (VerifyProgram), and it does not run.
    shared->persistent = const_cast<char *>(prepared.data());
  else if (shared->persistentBytes)
    shared->persistent = device->allocate(shared->persistentBytes);
  if (shared->persistentBytes && !shared->persistent)
    return Status::outOfMemory();
  return {};
}

Status LoadedExecutable::load(const std::string &path,
                              const OpenOptions &options) {
  if (Status s = loadShared(path, options); !s.ok())
    return s;
  std::vector<std::shared_ptr<LoadedProgram>> programs;
  for (const package::ProgramT *program : shared->package->programs()) {
    auto loaded = std::make_shared<LoadedProgram>(shared);
    if (Status s = loaded->load(*program); !s.ok())
      return s;
    describePlan(loaded->getPlan());
    programs.push_back(loaded);
    own.push_back(std::move(loaded));
  }
  shared->persistentInUse = shared->persistentBytes;
  if (shared->donor)
    borrow(programs,
           *dynamic_cast<const LoadedExecutable *>(options.like.get()));
  root = own.front();
  alone = own.size() == 1;
  publish(own);
  // Hashing has read every constant, and `initialize` what it packs; calls may
  // need few of those bytes again.
  shared->package->constants.releasePages();
  return {};
}

/// What both keep between calls lies in memory once, with `like`.
void LoadedExecutable::borrow(
    const std::vector<std::shared_ptr<LoadedProgram>> &programs,
    const LoadedExecutable &like) {
  SharedWeights lent;
  for (const auto &program : like.own)
    lent.add(program->getPlan());
  LoadedProgram::Left left;
  for (const auto &program : programs)
    program->useFrom(lent, left);
  if (shared->persistent && !shared->package->prepared.size())
    shared->persistentInUse = dropAllBut(left.persistent, shared->persistent,
                                         shared->persistentBytes);
  if (!left.constants)
    shared->package->constants = package::Safetensors();
  like.shared->package->constants.releasePages();
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

/// Where programs differ, the number is not known before a call.
void join(std::vector<int64_t> &known, const std::vector<int64_t> &other) {
  for (size_t i = 0; i < known.size() && i < other.size(); ++i)
    if (known[i] != other[i])
      known[i] = -1;
}

void LoadedExecutable::describePlan(const Plan &plan) {
  const package::Signature &signature = shared->package->manifest.signature;
  bool isFirst = own.empty();
  inputInfos.resize(plan.inputs.size());
  outputInfos.resize(plan.outputs.size());
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const InputPlan &input = plan.inputs[i];
    InputInfo info;
    if (i < signature.inputs.size() && signature.inputs[i].state)
      info.initial =
          shared->package->constants.find(package::stateConstant(input.name))
              ->data;
    info.name = input.name;
    info.isScalar = input.isScalar;
    info.mutated = input.mutated;
    info.dtype = input.dtype;
    info.shape = staticNumbers(input.shape);
    info.strides = stridesOr(input.strides, info.shape);
    if (!isFirst) {
      join(info.shape, inputInfos[i].shape);
      join(info.strides, inputInfos[i].strides);
    }
    inputInfos[i] = std::move(info);
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan &output = plan.outputs[i];
    OutputInfo info;
    if (i < signature.outputs.size())
      info.name = signature.outputs[i];
    info.kind = static_cast<OutputValue::Kind>(output.kind);
    info.input = output.input;
    if (output.buffer >= 0) {
      const BufferPlan &b = plan.buffers[output.buffer];
      info.dtype = b.dtype;
      info.shape = staticNumbers(b.shape);
      info.strides = stridesOr(b.strides, info.shape);
    }
    if (!isFirst) {
      join(info.shape, outputInfos[i].shape);
      join(info.strides, outputInfos[i].strides);
    }
    outputInfos[i] = std::move(info);
  }
}

Status LoadedExecutable::run(const InputValue *inputs, size_t inputCount,
                             OutputValue *outputs, size_t outputCount,
                             OutputAllocator &allocator) const {
  if (alone.load(std::memory_order_relaxed))
    return root->run(inputs, inputCount, outputs, outputCount, allocator);
  std::shared_ptr<const GearTable> current = currentTable();
  const LoadedProgram *program = current->find(inputs, inputCount);
  if (!program && shared->package->program.pads)
    if (const LoadedProgram *larger = current->findLarger(inputs, inputCount))
      return runPadded(*larger, shared->package->program.padded, inputs,
                       inputCount, outputs, outputCount, allocator);
  if (!program)
    return current->noProgram(inputs);
  return program->run(inputs, inputCount, outputs, outputCount, allocator);
}

Status
LoadedExecutable::add(const std::shared_ptr<const Executable> &other) const {
  const auto *loaded = dynamic_cast<const LoadedExecutable *>(other.get());
  if (!loaded)
    return Status(StatusCode::Internal, "programs of another runtime");
  try {
    std::lock_guard<std::mutex> guard(changing);
    Programs programs = currentTable()->programs();
    for (const auto &program : loaded->own) {
      if (!answersLike(root->getPlan(), program->getPlan()))
        return Status(StatusCode::InvalidArgument,
                      "the programs are not of one graph");
      programs.push_back(program);
    }
    publish(std::move(programs));
    alone = false;
    return {};
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  }
}

void LoadedExecutable::remove(const Executable &other) const {
  const auto *loaded = dynamic_cast<const LoadedExecutable *>(&other);
  if (!loaded || loaded == this)
    return;
  std::lock_guard<std::mutex> guard(changing);
  Programs kept;
  for (const auto &program : currentTable()->programs())
    if (&program->getOwner() != loaded->shared.get())
      kept.push_back(program);
  publish(std::move(kept));
}

uint64_t LoadedExecutable::lastUse() const {
  uint64_t last = 0;
  for (const auto &program : own)
    last = std::max(last, program->lastUse.load(std::memory_order_relaxed));
  return last;
}

size_t LoadedExecutable::cachedBytes() const {
  size_t bytes = shared->package->prepared.size() ? 0 : shared->persistentInUse;
  if (!shared->donor)
    bytes += shared->arenas->bytes();
  for (const auto &program : own)
    bytes += program->cachedBytes();
  return bytes;
}

} // namespace
} // namespace runtime

Expected<std::shared_ptr<const Executable>>
Executable::open(const std::string &path, const OpenOptions &options) {
  try {
    trace::Recorder::startFromEnvironment();
    if (Status s = runtime::pinFromEnvironment(); !s.ok())
      return s;
    if (Status s = runtime::executionFromEnvironment(); !s.ok())
      return s;
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
