//===- LoadedExecutable.cpp - an opened package that runs -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/api/LoadedExecutable.h"

#include "runtime/api/FoundResults.h"
#include "runtime/shapes/Padding.h"

#include <algorithm>

namespace anabranch::runtime {

Status LoadedExecutable::load(const std::string &path,
                              const OpenOptions &options) {
  const auto *like = dynamic_cast<const LoadedExecutable *>(options.like.get());
  Expected<std::shared_ptr<LoadedPackage>> opened =
      LoadedPackage::open(path, options, like ? like->shared : nullptr);
  if (!opened)
    return opened.takeStatus();
  shared = std::move(*opened);
  std::vector<std::shared_ptr<LoadedProgram>> programs;
  for (const package::ProgramT *program : shared->package->entries()) {
    auto loaded = std::make_shared<LoadedProgram>(shared);
    if (Status s = loaded->load(*program); !s.ok())
      return s;
    interface.add(*shared->package, loaded->getPlan(),
                  shared->ownHost != nullptr);
    programs.push_back(loaded);
    own.push_back(std::move(loaded));
  }
  if (shared->donor && !changesWeights() && !like->changesWeights())
    shareWeights(programs, *like);
  root = own.front();
  alone = own.size() == 1;
  publish(own);
  // Hashing has read every constant, and `initialize` those that it packs.
  // Calls may need few of these pages again.
  shared->package->constants.releasePages();
  return {};
}

bool LoadedExecutable::changesWeights() const {
  return std::any_of(own.begin(), own.end(), [](const auto &program) {
    return program->changesWeights();
  });
}

/// Uses the weights of `like` wherever they equal the package's own, so that
/// memory has them once.
void LoadedExecutable::shareWeights(
    const std::vector<std::shared_ptr<LoadedProgram>> &programs,
    const LoadedExecutable &like) {
  SharedWeights donated;
  for (const auto &program : like.own)
    donated.add(program->getPlan());
  LoadedProgram::UsedRanges used;
  for (const auto &program : programs)
    program->useFrom(donated, used);
  if (shared->persistent && !shared->package->prepared.size())
    shared->persistentInUse = dropAllBut(used.persistent, shared->persistent,
                                         shared->persistentBytes);
  if (!used.constants)
    shared->package->constants = package::Safetensors();
  like.shared->package->constants.releasePages();
}

Status LoadedExecutable::run(const InputValue *inputs, size_t inputCount,
                             OutputValue *outputs, size_t outputCount,
                             OutputAllocator &allocator) const {
  Status done = runOne(inputs, inputCount, outputs, outputCount, allocator);
  if (!shared->ownHost || !done.ok())
    return done;
  return copyFoundResults(*shared->ownHost, *shared->device, outputs,
                          outputCount, allocator);
}

/// Runs the program that was made for these sizes.
Status LoadedExecutable::runOne(const InputValue *inputs, size_t inputCount,
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
    return Status(StatusCode::Internal,
                  "the executable to add is not one of this runtime");
  try {
    std::shared_ptr<const GearTable> replaced; // dies after the section
    NoFork section;
    std::lock_guard<std::mutex> guard(changing);
    Programs programs = currentTable()->programs();
    for (const auto &program : loaded->own) {
      if (!answersLike(root->getPlan(), program->getPlan()))
        return Status(StatusCode::InvalidArgument,
                      "the programs are not of one graph");
      programs.push_back(program);
    }
    replaced = publish(std::move(programs));
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
  std::shared_ptr<const GearTable> replaced; // dies after the section
  NoFork section;
  std::lock_guard<std::mutex> guard(changing);
  Programs kept;
  for (const auto &program : currentTable()->programs())
    if (&program->getOwner() != loaded->shared.get())
      kept.push_back(program);
  replaced = publish(std::move(kept));
}

uint64_t LoadedExecutable::lastUse() const {
  uint64_t last = 0;
  for (const auto &program : own)
    last = std::max(last, program->lastUse.load(std::memory_order_relaxed));
  return last;
}

uint64_t LoadedExecutable::copiedArguments() const {
  uint64_t sum = 0;
  for (const auto &program : currentTable()->programs())
    sum += program->copiedArguments.load(std::memory_order_relaxed);
  return sum;
}

size_t LoadedExecutable::cachedBytes() const {
  size_t bytes = shared->package->prepared.size() ? 0 : shared->persistentInUse;
  if (!shared->donor)
    bytes += shared->arenas->bytes();
  for (const auto &program : own)
    bytes += program->cachedBytes();
  return bytes;
}

} // namespace anabranch::runtime
