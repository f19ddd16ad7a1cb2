//===- LoadedExecutable.h - an opened package that runs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_API_LOADEDEXECUTABLE_H
#define ANABRANCH_RUNTIME_API_LOADEDEXECUTABLE_H

#include "process/Fork.h"
#include "runtime/api/CallInterface.h"
#include "runtime/shapes/GearTable.h"

#include <algorithm>
#include <mutex>

namespace anabranch::runtime {

/// An opened package: its own programs, and programs that `add` added.
class LoadedExecutable : public Executable {
public:
  Status load(const std::string &path, const OpenOptions &options);

  const std::vector<InputInfo> &inputs() const override {
    return interface.inputs;
  }
  const std::vector<OutputInfo> &outputs() const override {
    return interface.outputs;
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
    size_t others = main.calls.size() + main.steps.size() +
                    main.branches.size() + main.loops.size();
    return main.serial.size() - others;
  }
  size_t hostCallCount() const override {
    const std::vector<CallPlan> &calls = root->getPlan().main.calls;
    return std::count_if(calls.begin(), calls.end(),
                         [](const CallPlan &call) { return !call.own; });
  }
  size_t programCount() const override {
    return currentTable()->programs().size();
  }
  size_t cachedBytes() const override;
  uint64_t copiedArguments() const;
  const std::string &target() const override { return shared->package->target; }
  const void *preparedWeights() const override { return shared->persistent; }
  void trim() const override {
    for (const auto &program : currentTable()->programs())
      program->trim();
    shared->arenas->trim();
  }

private:
  Status runOne(const InputValue *inputs, size_t inputCount,
                OutputValue *outputs, size_t outputCount,
                OutputAllocator &allocator) const;
  bool changesWeights() const;
  void shareWeights(const std::vector<std::shared_ptr<LoadedProgram>> &programs,
                    const LoadedExecutable &like);
  std::shared_ptr<const GearTable> currentTable() const {
    NoFork section;
    return std::atomic_load(&table);
  }
  /// Returns the table that the new one replaces.
  std::shared_ptr<const GearTable> publish(Programs programs) const {
    auto made = std::make_shared<const GearTable>(std::move(programs));
    NoFork section;
    return std::atomic_exchange(&table, std::shared_ptr<const GearTable>(made));
  }

  std::shared_ptr<LoadedPackage> shared;
  Programs own; ///< the package's programs
  std::shared_ptr<const LoadedProgram> root;
  CallInterface interface;
  /// `add` and `remove` replace the whole table. A call keeps the table that it
  /// began with.
  mutable std::shared_ptr<const GearTable> table;
  mutable std::atomic<bool> alone{
      true}; ///< no program was ever added to `root`
  mutable std::mutex changing;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_API_LOADEDEXECUTABLE_H
