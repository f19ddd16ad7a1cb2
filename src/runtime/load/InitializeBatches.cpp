//===- InitializeBatches.cpp - weights packed a few at a time -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/InitializeBatches.h"

namespace anabranch::runtime {
namespace {

int64_t constantBytes(const Plan &plan, int buffer) {
  const BufferPlan &b = plan.buffers[static_cast<size_t>(buffer)];
  bool isKnown = b.kind == BufferKind::Constant && b.bytes.slot() < 0;
  return isKnown ? b.bytes.value() : 0;
}

int64_t bytesRead(const Plan &plan, const Commands &commands,
                  const Command &command) {
  int64_t sum = 0;
  auto index = static_cast<size_t>(command.index);
  if (command.kind == Command::Kind::Launch) {
    const LaunchPlan &launch = commands.launches[index];
    auto first = static_cast<size_t>(launch.firstOperand);
    for (size_t i = 0; i < static_cast<size_t>(launch.inputCount); ++i)
      sum += constantBytes(plan, commands.operands[first + i]);
  } else if (command.kind == Command::Kind::Step) {
    for (int buffer : commands.steps[index].buffers)
      sum += constantBytes(plan, buffer);
  }
  return sum;
}

/// Commands with one stream, which is still empty.
Commands emptyBatch(const Commands &whole) {
  Commands batch;
  batch.streams.resize(1);
  batch.byPriority = {0};
  batch.launches = whole.launches;
  batch.steps = whole.steps;
  batch.operands = whole.operands;
  batch.sizes = whole.sizes;
  batch.inputPatches = whole.inputPatches;
  batch.resultPatches = whole.resultPatches;
  return batch;
}

void append(Commands &batch, Command command) {
  command.stream = 0;
  batch.serial.push_back(command);
  batch.streams[0].commands.push_back(command);
}

} // namespace

Commands selectCommands(const Commands &whole,
                        const std::vector<size_t> &numbers) {
  Commands batch = emptyBatch(whole);
  for (size_t number : numbers)
    append(batch, whole.serial[number]);
  return batch;
}

std::vector<Commands> cutByReads(const Plan &plan, const Commands &whole,
                                 int64_t bytes) {
  std::vector<Commands> batches;
  int64_t left = 0, sum = 0;
  for (const Command &command : whole.serial)
    sum += bytesRead(plan, whole, command);
  if (sum <= bytes || !whole.calls.empty() || !whole.supers.empty())
    return batches;
  for (const Command &command : whole.serial) {
    int64_t reads = bytesRead(plan, whole, command);
    if (batches.empty() || reads > left) {
      batches.push_back(emptyBatch(whole));
      left = bytes;
    }
    left -= reads;
    append(batches.back(), command);
  }
  return batches;
}

} // namespace anabranch::runtime
