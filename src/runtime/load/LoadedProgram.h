//===- LoadedProgram.h - one program that can run ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H
#define ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H

#include "runtime/device/Library.h"
#include "runtime/execute/CallFrame.h"
#include "runtime/load/SharedWeights.h"

namespace anabranch::runtime {

/// What the programs of one package share.
struct LoadedPackage {
  ~LoadedPackage();

  std::unique_ptr<package::Package> package;
  std::unique_ptr<Library> library;
  const Device *device = nullptr;
  HostCalls *host = nullptr;
  int threads = 0;
  void *persistent = nullptr; ///< made by the programs' initialisations
  size_t persistentBytes = 0;
  size_t persistentInUse = 0; ///< of `persistent`, those in use
  /// One for each call that runs at a time, whichever program it runs.
  std::shared_ptr<ArenaPool> arenas;
  /// Of another package: its weights and its arenas are used.
  std::shared_ptr<const LoadedPackage> donor;
};

/// A program of a package, ready to run. Any number of threads may run it.
class LoadedProgram {
public:
  explicit LoadedProgram(std::shared_ptr<const LoadedPackage> owner)
      : owner(std::move(owner)) {}
  ~LoadedProgram() { frames.trim(); }

  /// Builds the plan and makes what the program keeps from call to call.
  Status load(const package::ProgramT &program);

  Status run(const InputValue *inputs, size_t inputCount, OutputValue *outputs,
             size_t outputCount, OutputAllocator &allocator) const;

  /// What remains of a package's own memory.
  struct Left {
    std::vector<std::pair<size_t, size_t>> persistent; ///< begin, end
    bool constants = false;
  };
  /// Takes what it keeps from `lent`, as far as that has the same bytes, and
  /// adds the rest to `left`. Call before anything runs.
  void useFrom(const SharedWeights &lent, Left &left);

  const Plan &getPlan() const { return plan; }
  const LoadedPackage &getOwner() const { return *owner; }
  size_t cachedBytes() const { return frames.bytes(); }
  void trim() const { frames.trim(); }

  /// When a table chose it last, on a clock that counts such choices.
  mutable std::atomic<uint64_t> lastUse{0};

private:
  Status initialize();
  Status runIn(CallFrame &frame, const InputValue *inputs, size_t inputCount,
               OutputValue *outputs, size_t outputCount,
               OutputAllocator &allocator) const;
  void prepareOutputs(CallFrame &frame, OutputValue *outputs) const;
  Status bindOutputs(CallFrame &frame, OutputValue *outputs) const;
  Status handOver(CallFrame &frame, OutputValue *outputs) const;
  void takeBack(OutputValue *outputs, size_t count) const;
  int workers() const;

  std::shared_ptr<const LoadedPackage> owner;
  Plan plan;
  SuperKernels superKernels;
  mutable FramePool frames;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H
