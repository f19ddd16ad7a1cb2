//===- BuildPlan.cpp - a program, flattened for the executor --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/plan/BuildPlan.h"

#include "package/verify/Actions.h"
#include "runtime/plan/FlattenCommands.h"

#include <algorithm>
#include <map>

namespace anabranch::runtime {

using namespace package;

namespace {

Size sizeOr(const std::unique_ptr<Size> &size, int64_t otherwise) {
  return size ? *size : Size(otherwise, -1);
}

void addInputs(const ProgramT &program, Plan &plan) {
  for (const auto &input : program.inputs) {
    InputPlan i;
    i.name = input->name;
    i.isScalar = input->is_scalar;
    i.mutated = input->mutated;
    i.scalarSlot = input->is_scalar ? input->scalar_slot : -1;
    i.dtype = static_cast<anabranch::DType>(input->dtype);
    i.shape = input->shape;
    i.strides = input->strides;
    if (i.mutated)
      plan.mutatedInputs.push_back(static_cast<int>(plan.inputs.size()));
    plan.inputs.push_back(std::move(i));
  }
  // The first source of a slot defines its value. Others are compared with it
  // when shapes are checked.
  std::vector<bool> defined(static_cast<size_t>(plan.slots), false);
  for (const InputPlan &input : plan.inputs)
    if (input.scalarSlot >= 0)
      defined[input.scalarSlot] = true;
  for (const SlotSource &source : program.slot_sources) {
    if (!defined[source.slot()])
      plan.slotSources.push_back(source);
    defined[source.slot()] = true;
  }
}

void addBuffers(const Package &package, const ProgramT &program, Plan &plan) {
  for (const auto &buffer : program.buffers) {
    BufferPlan b;
    b.kind = buffer->kind;
    b.index = buffer->index;
    b.offset = sizeOr(buffer->offset, 0);
    b.bytes = sizeOr(buffer->bytes, 0);
    b.dtype = static_cast<anabranch::DType>(buffer->dtype);
    b.shape = buffer->shape;
    b.strides = buffer->strides;
    for (const Size &size : buffer->shape)
      b.runSized |= size.slot() < 0 && size.value() < 0;
    // After `initialize` has run, the package may lack constants that only
    // `initialize` reads.
    if (b.kind == BufferKind::Constant)
      if (const StoredTensor *tensor = package.constants.find(buffer->name))
        b.constant = tensor->data;
    plan.buffers.push_back(std::move(b));
  }
}

/// Finds the end of the arena's static buffers, and collects the other buffers
/// in ranges by offset.
void addDynamicRanges(const ProgramT &program, Plan &plan) {
  std::map<std::pair<int, int64_t>, size_t> numbers;
  for (const auto &buffer : program.buffers) {
    if (buffer->kind != BufferKind::Arena)
      continue;
    const Size &offset = *buffer->offset, &bytes = *buffer->bytes;
    if (offset.slot() < 0 && bytes.slot() < 0) {
      plan.staticArenaBytes =
          std::max(plan.staticArenaBytes, offset.value() + bytes.value());
      continue;
    }
    auto [entry, isNew] = numbers.try_emplace({offset.slot(), offset.value()},
                                              plan.dynamicRanges.size());
    if (isNew)
      plan.dynamicRanges.push_back({offset, {}});
    plan.dynamicRanges[entry->second].bytes.push_back(bytes);
  }
}

void addChecks(const ProgramT &program, Plan &plan) {
  for (const auto &check : program.checks) {
    std::string message = check->message;
    if (check->location >= 0) {
      const LocationT &place = *program.locations[check->location];
      message += " (" + place.file + ":" + std::to_string(place.line) + ")";
    }
    plan.checks.push_back({*check->condition, std::move(message)});
  }
}

void addOutputs(const ProgramT &program, Plan &plan) {
  for (const auto &output : program.outputs) {
    OutputPlan o;
    o.kind = output->kind;
    o.buffer = output->buffer;
    o.input = output->index;
    o.scalar = sizeOr(output->scalar, 0);
    if (o.kind == OutputKind::Tensor || o.kind == OutputKind::External) {
      BufferPlan &b = plan.buffers[o.buffer];
      if (b.view < 0) {
        b.view = plan.viewNumbers;
        plan.viewNumbers += static_cast<int>(2 * b.shape.size());
      }
    }
    plan.outputs.push_back(o);
  }
}

} // namespace

Status buildPlan(const Package &package, const ProgramT &program,
                 const Device &device, HostCalls *host, const Library *library,
                 Plan &plan) {
  plan.device = &device;
  plan.host = host;
  plan.name = program.name;
  plan.slots = program.slots;
  plan.arenaBytes = sizeOr(program.arena_bytes, 0);
  plan.persistentBytes = sizeOr(program.persistent_bytes, 0).value();
  auto info = std::make_shared<trace::ProgramInfo>();
  info->name = program.name;
  info->shown = "anabranch: " + program.name;
  plan.info = info;
  if (!program.sizes_function.empty()) {
    plan.sizesFunction = reinterpret_cast<anabranch_sizes_fn>(
        library ? library->symbol(program.sizes_function) : nullptr);
    if (!plan.sizesFunction)
      return Status(StatusCode::BadPackage,
                    "kernels.so lacks the function " + program.sizes_function);
  }
  plan.awaits = program.awaits;
  plan.records = program.records;
  addInputs(program, plan);
  plan.slotLimits = program.slot_limits;
  addChecks(program, plan);
  addBuffers(package, program, plan);
  addDynamicRanges(program, plan);
  addOutputs(program, plan);
  std::vector<bool> watched = readByInitialize(program);
  for (size_t i = 0; i < watched.size(); ++i)
    plan.inputs[i].watched = watched[i];
  if (Status s = flattenCommands(program, program.initialize, library, *info,
                                 plan, plan.initialize);
      !s.ok())
    return s;
  if (Status s = flattenCommands(program, program.streams, library, *info, plan,
                                 plan.main);
      !s.ok())
    return s;
  return {};
}

} // namespace anabranch::runtime
