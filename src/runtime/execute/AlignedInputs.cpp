//===- AlignedInputs.cpp - copies of arguments that are not aligned -------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/AlignedInputs.h"

#include "anabranch/Layout.h"
#include "runtime/device/StridedCopy.h"

namespace anabranch::runtime {

AlignedInputs::AlignedInputs(const Plan &plan, const Commands &commands)
    : plan(plan), commands(commands) {}

void AlignedInputs::findUsed() {
  used.assign(plan.inputs.size(), false);
  copies.resize(plan.inputs.size());
  auto use = [&](int number) {
    if (number < 0)
      return;
    const BufferPlan &buffer = plan.buffers[number];
    if (buffer.kind == BufferKind::Input)
      used[buffer.index] = true;
  };
  for (int buffer : commands.operands)
    use(buffer);
  for (const StepPlan &step : commands.steps)
    for (int buffer : step.buffers)
      use(buffer);
  for (const CallPlan &call : commands.calls)
    for (const ArgumentPatch &patch : call.patches)
      use(patch.buffer);
}

TensorView AlignedInputs::viewOfCopy(size_t number,
                                     const TensorView &argument) const {
  TensorView view = argument;
  view.data = copies[number]->get();
  return view;
}

void *AlignedInputs::place(size_t number, const TensorView &argument) {
  if (used.empty())
    findUsed();
  if (!used[number])
    return argument.data;
  if (!copies[number])
    copies[number] = std::make_unique<DeviceBuffer>(*plan.device);
  size_t elements = static_cast<size_t>(spanOf(argument));
  if (!copies[number]->reserve(elements * itemSize(argument.dtype)))
    return nullptr;
  stridedCopy(argument, viewOfCopy(number, argument));
  copied.push_back(number);
  return copies[number]->get();
}

void AlignedInputs::writeBack(const InputValue *arguments) const {
  for (size_t number : copied) {
    const TensorView &argument = arguments[number].tensor;
    if (plan.inputs[number].mutated)
      stridedCopy(viewOfCopy(number, argument), argument);
  }
}

size_t AlignedInputs::bytes() const {
  size_t sum = 0;
  for (const auto &copy : copies)
    sum += copy ? copy->bytes() : 0;
  return sum;
}

} // namespace anabranch::runtime
