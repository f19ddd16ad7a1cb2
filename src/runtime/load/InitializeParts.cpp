//===- InitializeParts.cpp - weights packed a few at a time ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/InitializeParts.h"

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
Commands emptyPart(const Commands &whole) {
  Commands part;
  part.streams.resize(1);
  part.byPriority = {0};
  part.launches = whole.launches;
  part.steps = whole.steps;
  part.operands = whole.operands;
  part.sizes = whole.sizes;
  part.inputPatches = whole.inputPatches;
  part.resultPatches = whole.resultPatches;
  return part;
}

void append(Commands &part, Command command) {
  command.stream = 0;
  part.serial.push_back(command);
  part.streams[0].commands.push_back(command);
}

} // namespace

Commands partOf(const Commands &whole, const std::vector<size_t> &numbers) {
  Commands part = emptyPart(whole);
  for (size_t number : numbers)
    append(part, whole.serial[number]);
  return part;
}

std::vector<Commands> cutByReads(const Plan &plan, const Commands &whole,
                                 int64_t bytes) {
  std::vector<Commands> parts;
  int64_t left = 0, sum = 0;
  for (const Command &command : whole.serial)
    sum += bytesRead(plan, whole, command);
  if (sum <= bytes || !whole.calls.empty() || !whole.supers.empty())
    return parts;
  for (const Command &command : whole.serial) {
    int64_t reads = bytesRead(plan, whole, command);
    if (parts.empty() || reads > left) {
      parts.push_back(emptyPart(whole));
      left = bytes;
    }
    left -= reads;
    append(parts.back(), command);
  }
  return parts;
}

} // namespace anabranch::runtime
