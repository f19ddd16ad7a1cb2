//===- LoadedProgram.h - one program that can run ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H
#define ANABRANCH_RUNTIME_LOAD_LOADEDPROGRAM_H

#include "runtime/execute/CallFrame.h"
#include "runtime/load/LoadedPackage.h"
#include "runtime/load/SharedWeights.h"

namespace anabranch::runtime {

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

  /// The parts of a package's own memory that its programs still use.
  struct Left {
    std::vector<std::pair<size_t, size_t>> persistent; ///< begin, end
    bool constants = false;
  };
  /// Takes what it keeps from `donated`, as far as that has the same bytes, and
  /// adds the rest to `left`. Call before anything runs.
  void useFrom(const SharedWeights &donated, Left &left);

  const Plan &getPlan() const { return plan; }
  const LoadedPackage &getOwner() const { return *owner; }
  size_t cachedBytes() const { return frames.bytes(); }
  void trim() const { frames.trim(); }

  /// When a table chose it last, on a clock that counts such choices.
  mutable std::atomic<uint64_t> lastUse{0};

private:
  Status initialize();
  Status initialize(const Commands &commands, DeviceBuffer &arena);
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
