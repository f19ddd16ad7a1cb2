//===- Arguments.cpp - are these the arguments that the program wants? ----===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/Arguments.h"

#include "runtime/device/Describe.h"

namespace anabranch::runtime {

namespace {

std::string title(const Plan &plan, size_t number) {
  const std::string &name = plan.inputs[number].name;
  return "argument " + std::to_string(number) +
         (name.empty() ? "" : " '" + name + "'");
}

Status wrongKind(const Plan &plan, size_t number) {
  return Status(StatusCode::TypeError,
                title(plan, number) + ": expected " +
                    (plan.inputs[number].isScalar ? "an int, got a tensor"
                                                  : "a tensor, got an int"));
}

Status wrongType(const Plan &plan, size_t number, const TensorView &got) {
  const InputPlan &want = plan.inputs[number];
  if (got.dtype != want.dtype)
    return Status(StatusCode::TypeError,
                  title(plan, number) + ": expected dtype " + name(want.dtype) +
                      ", got " + name(got.dtype));
  return Status(StatusCode::InvalidArgument,
                title(plan, number) + ": expected " +
                    std::to_string(want.shape.size()) +
                    " dimensions, got shape " +
                    describe(got.shape, static_cast<size_t>(got.rank)));
}

std::string expected(const std::vector<Size> &sizes, const int64_t *slots) {
  std::vector<int64_t> numbers;
  numbers.reserve(sizes.size());
  for (const Size &size : sizes)
    numbers.push_back(valueOf(size, slots));
  return describe(numbers.data(), numbers.size());
}

/// The argument that a slot's value comes from, in words; empty for a computed
/// slot.
std::string argumentOfSlot(const Plan &plan, int slot) {
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (slot >= 0 && plan.inputs[i].scalarSlot == slot)
      return title(plan, i);
  for (const package::SlotSource &source : plan.slotSources)
    if (source.slot() == slot)
      return "dimension " + std::to_string(source.dim()) + " of " +
             title(plan, static_cast<size_t>(source.input()));
  return "";
}

Status wrongShape(const CallFrame &frame, size_t number,
                  const TensorView &got) {
  const std::vector<Size> &want = frame.plan.inputs[number].shape;
  std::string text = title(frame.plan, number) + ": expected shape " +
                     expected(want, frame.slots.data()) + ", got " +
                     describe(got.shape, static_cast<size_t>(got.rank));
  for (size_t d = want.size(); d-- > 0;) {
    int64_t size = valueOf(want[d], frame.slots.data());
    if (got.shape[d] == size)
      continue;
    if (std::string source = argumentOfSlot(frame.plan, want[d].slot());
        !source.empty())
      text += "; dimension " + std::to_string(d) + " (" +
              std::to_string(got.shape[d]) + ") must equal " + source + " (" +
              std::to_string(size) + ")";
    break;
  }
  return Status(StatusCode::InvalidArgument, std::move(text));
}

/// Checks that the sizes are within those for which the program was made.
Status checkLimits(const Plan &plan, const int64_t *slots) {
  for (const package::SlotLimit &limit : plan.slotLimits) {
    int64_t size = slots[limit.slot()];
    if (size >= limit.min() && size <= limit.max())
      continue;
    bool below = size < limit.min();
    return Status(StatusCode::InvalidArgument,
                  argumentOfSlot(plan, limit.slot()) + " is " +
                      std::to_string(size) + ", but the program was made for " +
                      std::to_string(below ? limit.min() : limit.max()) +
                      (below ? " or more" : " or less"));
  }
  return {};
}

/// Checks what the user asked of the sizes.
Status checkConditions(const Plan &plan, const int64_t *slots) {
  for (const CheckPlan &check : plan.checks)
    if (valueOf(check.condition, slots) != 1)
      return Status(StatusCode::InvalidArgument, check.message);
  return {};
}

Status wrongStrides(const CallFrame &frame, size_t number,
                    const TensorView &got) {
  const InputPlan &want = frame.plan.inputs[number];
  return Status(
      StatusCode::InvalidArgument,
      title(frame.plan, number) + ": expected " +
          (want.strides.empty()
               ? std::string("a contiguous tensor")
               : "strides " + expected(want.strides, frame.slots.data())) +
          ", got strides " +
          (got.strides ? describe(got.strides, static_cast<size_t>(got.rank))
                       : "of a contiguous tensor") +
          " for shape " + describe(got.shape, static_cast<size_t>(got.rank)));
}

Status noMemory(const Plan &plan, size_t number) {
  return Status(StatusCode::InvalidArgument,
                title(plan, number) + ": it has no memory");
}

/// Checks kind, dtype and rank. Shapes may be read only after this.
Status checkTypes(const Plan &plan, const InputValue *values) {
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const InputPlan &want = plan.inputs[i];
    const InputValue &got = values[i];
    if (want.isScalar != (got.kind == InputValue::Kind::Scalar))
      return wrongKind(plan, i);
    if (!want.isScalar &&
        (got.tensor.dtype != want.dtype ||
         got.tensor.rank != static_cast<int32_t>(want.shape.size())))
      return wrongType(plan, i, got.tensor);
  }
  return {};
}

/// Reads the sizes that the caller determines into the size table. True if one
/// changed.
bool readSlots(const Plan &plan, const InputValue *values, int64_t *slots) {
  bool changed = false;
  auto set = [&](int slot, int64_t value) {
    changed |= slots[slot] != value;
    slots[slot] = value;
  };
  for (const package::SlotSource &source : plan.slotSources)
    set(source.slot(), values[source.input()].tensor.shape[source.dim()]);
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    if (plan.inputs[i].scalarSlot >= 0)
      set(plan.inputs[i].scalarSlot, values[i].scalar);
  return changed;
}

/// Checks shape, strides and pointer of one tensor, and binds its memory.
Status bindTensor(CallFrame &frame, size_t number, const TensorView &got) {
  const InputPlan &want = frame.plan.inputs[number];
  const int64_t *slots = frame.slots.data();
  bool empty = false, stridesFit = true;
  int64_t dense = 1;
  for (size_t d = want.shape.size(); d-- > 0;) {
    int64_t size = got.shape[d];
    if (size != valueOf(want.shape[d], slots) || size < 0)
      return wrongShape(frame, number, got);
    empty |= size == 0;
    // A dimension of one element never uses its stride.
    if (size != 1) {
      int64_t stride =
          want.strides.empty() ? dense : valueOf(want.strides[d], slots);
      stridesFit &= (got.strides ? got.strides[d] : dense) == stride;
    }
    dense *= size;
  }
  void *&bound = frame.inputs[number] = got.data;
  if (empty)
    return {};
  if (!stridesFit)
    return wrongStrides(frame, number, got);
  if (!got.data)
    return noMemory(frame.plan, number);
  if (!AlignedInputs::isAligned(got))
    bound = frame.alignedInputs.place(number, got);
  return bound ? Status() : Status::outOfMemory();
}

/// An argument that the program writes must not share memory with another
/// argument: commands are ordered by the arguments that they name, not by
/// addresses.
Status checkWritten(const Plan &plan, const InputValue *values) {
  for (int written : plan.mutatedInputs)
    for (size_t i = 0; i < plan.inputs.size(); ++i) {
      if (static_cast<int>(i) == written || plan.inputs[i].isScalar ||
          !mayOverlap(values[written].tensor, values[i].tensor))
        continue;
      return Status(StatusCode::InvalidArgument,
                    title(plan, i) + " shares memory with " +
                        title(plan, static_cast<size_t>(written)) +
                        ", which the program writes; pass a copy of one");
    }
  return {};
}

} // namespace

Status bindInputs(CallFrame &frame, const InputValue *values, size_t count) {
  const Plan &plan = frame.plan;
  if (count != plan.inputs.size())
    return Status(StatusCode::TypeError,
                  "expected " + std::to_string(plan.inputs.size()) +
                      " arguments, got " + std::to_string(count));
  if (Status s = checkTypes(plan, values); !s.ok())
    return s;
  if (readSlots(plan, values, frame.slots.data()) || !frame.sized) {
    frame.sized = false;
    if (Status s = checkLimits(plan, frame.slots.data()); !s.ok())
      return s;
    if (plan.sizesFunction)
      plan.sizesFunction(frame.slots.data());
    if (Status s = checkConditions(plan, frame.slots.data()); !s.ok())
      return s;
  }
  frame.alignedInputs.beginCall();
  for (size_t i = 0; i < count; ++i) {
    if (plan.inputs[i].isScalar) {
      int slot = plan.inputs[i].scalarSlot;
      if (slot >= 0 && frame.slots[slot] != values[i].scalar)
        return Status(StatusCode::InvalidArgument,
                      title(plan, i) + ": expected " +
                          std::to_string(frame.slots[slot]) + ", got " +
                          std::to_string(values[i].scalar));
      continue;
    }
    if (Status s = bindTensor(frame, i, values[i].tensor); !s.ok())
      return s;
  }
  if (Status s = checkWritten(plan, values); !s.ok())
    return s;
  return frame.sized ? frame.place() : frame.resize();
}

} // namespace anabranch::runtime
