//===- WatchedInputs.cpp - weights that seldom change ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/WatchedInputs.h"

#include "runtime/load/InitializeBatches.h"

#include <algorithm>

namespace anabranch::runtime {

namespace {

using Marks = std::vector<bool>;

void unite(Marks &into, const Marks &more) {
  for (size_t i = 0; i < into.size(); ++i)
    into[i] = into[i] || more[i];
}

std::vector<int> buffersOf(const Commands &commands, const Command &command) {
  auto index = static_cast<size_t>(command.index);
  if (command.kind == Command::Kind::Step)
    return commands.steps[index].buffers;
  if (command.kind != Command::Kind::Launch)
    return {};
  const LaunchPlan &launch = commands.launches[index];
  auto first = commands.operands.begin() + launch.firstOperand;
  return {first, first + launch.operandCount};
}

/// Bytes of the persistent memory that a command touched, and the inputs that
/// it depends on.
struct Touched {
  int64_t begin, end;
  Marks marks;
};

} // namespace

WatchedInputs::WatchedInputs(const Plan &plan) : plan(plan) {
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].watched)
      inputs.push_back({i});
  if (any())
    findDependences();
}

void WatchedInputs::findDependences() {
  std::vector<Touched> touched;
  bool usesArena = false;
  for (const Command &command : plan.initialize.serial) {
    Marks marks(inputs.size(), false);
    std::vector<Touched> now;
    for (int number : buffersOf(plan.initialize, command)) {
      const BufferPlan &buffer = plan.buffers[static_cast<size_t>(number)];
      usesArena |= buffer.kind == BufferKind::Arena;
      if (buffer.kind == BufferKind::Input)
        for (size_t i = 0; i < inputs.size(); ++i)
          if (inputs[i].number == static_cast<size_t>(buffer.index))
            marks[i] = true;
      if (buffer.kind != BufferKind::Persistent)
        continue;
      int64_t begin = buffer.offset.value();
      now.push_back({begin, begin + buffer.bytes.value(), {}});
      for (const Touched &before : touched)
        if (before.begin < now.back().end && begin < before.end)
          unite(marks, before.marks);
    }
    for (Touched &range : now) {
      range.marks = marks;
      touched.push_back(std::move(range));
    }
    dependences.push_back(std::move(marks));
  }
  // The contents of the arena are lost after the commands, so all of them
  // belong together.
  if (usesArena)
    dependences.assign(dependences.size(), Marks(inputs.size(), true));
}

Commands WatchedInputs::independent() const {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < dependences.size(); ++i)
    if (std::find(dependences[i].begin(), dependences[i].end(), true) ==
        dependences[i].end())
      numbers.push_back(i);
  return selectCommands(plan.initialize, numbers);
}

bool WatchedInputs::areAsIn(const InputValue *values) const {
  return std::all_of(inputs.begin(), inputs.end(),
                     [&](const Input &input) { return input.isAsIn(values); });
}

bool WatchedInputs::join(const InputValue *values, Use &use) {
  use.shared = std::shared_lock<std::shared_mutex>(mutex.get());
  if (areAsIn(values))
    return true;
  use.shared.unlock();
  use.alone = std::unique_lock<std::shared_mutex>(mutex.get());
  return areAsIn(values);
}

Commands WatchedInputs::outdated(const InputValue *values) const {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < dependences.size(); ++i)
    for (size_t k = 0; k < inputs.size(); ++k)
      if (dependences[i][k] && !inputs[k].isAsIn(values)) {
        numbers.push_back(i);
        break;
      }
  return selectCommands(plan.initialize, numbers);
}

void WatchedInputs::beginChange(const InputValue *values) {
  for (Input &input : inputs)
    if (!input.isAsIn(values))
      input.version = 0;
}

void WatchedInputs::endChange(const InputValue *values) {
  for (Input &input : inputs) {
    const InputValue &value = values[input.number];
    input = {input.number, value.version, value.tensor.data};
  }
}

} // namespace anabranch::runtime
