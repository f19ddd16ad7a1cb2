//===- LoadedProgram.h - one program that can run ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H
#define ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H

#include "runtime/execute/CallFrame.h"
#include "runtime/load/LoadedPackage.h"
#include "runtime/load/SharedWeights.h"
#include "runtime/load/WatchedInputs.h"
#include "runtime/plan/RegionPrograms.h"

namespace anabranch::runtime {

/// A program of a package, ready to run. Any number of threads may run it. It
/// owns its regions, which run each other through it.
class LoadedProgram : public RegionPrograms {
public:
  explicit LoadedProgram(std::shared_ptr<const LoadedPackage> owner)
      : owner(std::move(owner)) {}
  ~LoadedProgram() override { frames.trim(); }
  LoadedProgram(const LoadedProgram &) = delete;
  LoadedProgram &operator=(const LoadedProgram &) = delete;

  /// Builds the plan, and makes the tables that the program keeps from call to
  /// call.
  Status load(const package::ProgramT &program);

  Status run(const InputValue *inputs, size_t inputCount, OutputValue *outputs,
             size_t outputCount, OutputAllocator &allocator) const;

  /// Runs a region.
  Status run(int number, const InputValue *inputs, size_t inputCount,
             OutputValue *outputs, size_t outputCount,
             OutputAllocator &allocator) const override {
    return regions[static_cast<size_t>(number)]->run(
        inputs, inputCount, outputs, outputCount, allocator);
  }

  /// The ranges of a package's own memory that its programs still use.
  struct UsedRanges {
    std::vector<std::pair<size_t, size_t>> persistent; ///< begin, end
    bool constants = false;
  };
  /// Replaces the program's weights by those of `donated` with equal bytes, and
  /// adds the ranges of the others to `used`. Call it before any call runs.
  void useFrom(const SharedWeights &donated, UsedRanges &used);

  /// Whether calls change what `initialize` made.
  bool changesWeights() const { return watched->any(); }
  const Plan &getPlan() const { return plan; }
  const LoadedPackage &getOwner() const { return *owner; }
  size_t cachedBytes() const;
  void trim() const;

  /// When a GearTable last chose the program, on a clock that counts such
  /// choices.
  mutable std::atomic<uint64_t> lastUse{0};
  /// How many arguments calls have copied because they were not aligned.
  mutable std::atomic<uint64_t> copiedArguments{0};

private:
  Status load(const package::ProgramT &program, const RegionPrograms &siblings);
  Status initialize();
  Status initialize(const Commands &commands, DeviceBuffer &arena);
  Status follow(const InputValue *inputs, size_t inputCount,
                WatchedInputs::Use &use) const;
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
  std::unique_ptr<WatchedInputs> watched;
  SuperKernels superKernels;
  std::vector<std::unique_ptr<LoadedProgram>> regions;
  mutable FramePool frames;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H
