//===- WatchedInputs.h - weights that seldom change -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// `initialize` may read inputs. What it makes of them is right for calls whose
// inputs have the versions (InputValue) of its last run. Any number of such
// calls run at once. A call with other versions runs alone: it first has the
// commands run again that depend on the inputs that differ.

#ifndef ANABRANCH_RUNTIME_LOAD_WATCHEDINPUTS_H
#define ANABRANCH_RUNTIME_LOAD_WATCHEDINPUTS_H

#include "anabranch/Executable.h"
#include "process/Fork.h"
#include "runtime/plan/Plan.h"

#include <mutex>
#include <shared_mutex>

namespace anabranch::runtime {

class WatchedInputs {
public:
  /// The locks that a call holds while it runs.
  class Use {
    friend class WatchedInputs;
    std::shared_lock<std::shared_mutex> shared;
    std::unique_lock<std::shared_mutex> alone;
  };

  /// Finds the inputs that `plan.initialize` reads, and what depends on them.
  explicit WatchedInputs(const Plan &plan);
  bool any() const { return !inputs.empty(); }

  /// The commands that depend on no input.
  Commands independent() const;

  /// Begins a call. False: commands have to run again, and until `use` ends no
  /// other call runs.
  bool join(const InputValue *values, Use &use);
  /// The commands that depend on inputs with other versions. The call that asks
  /// runs alone.
  Commands outdated(const InputValue *values) const;
  /// Notes that what depends on inputs with other versions is about to change.
  /// If the commands fail, or a fork leaves the child with half of them, they
  /// have to run again.
  void beginChange(const InputValue *values);
  /// Notes that the commands have run for these values.
  void endChange(const InputValue *values);

private:
  struct Input {
    size_t number;
    uint64_t version = 0;
    const void *data = nullptr;

    bool isAsIn(const InputValue *values) const {
      const InputValue &value = values[number];
      return version != 0 && version == value.version &&
             data == value.tensor.data;
    }
  };
  void findDependences();
  bool areAsIn(const InputValue *values) const;

  const Plan &plan;
  std::vector<Input> inputs;
  /// For each command in serial order: whether it depends on each of `inputs`.
  std::vector<std::vector<bool>> dependences;
  /// A call of the parent is none in the child of a fork.
  ForkLocal<std::shared_mutex> mutex;
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_LOAD_WATCHEDINPUTS_H
