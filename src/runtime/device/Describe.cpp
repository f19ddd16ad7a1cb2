//===- Describe.cpp - tensors and places in words -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/device/Describe.h"

#include "anabranch/KernelABI.h"

namespace anabranch::runtime {

std::string describe(const int64_t *numbers, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + "]";
}

std::string describe(const TensorView &tensor) {
  return name(tensor.dtype) +
         describe(tensor.shape, static_cast<size_t>(tensor.rank));
}

std::string describe(const trace::Label &label) {
  std::string text = label.operators.empty() ? label.name : label.operators;
  if (!label.file.empty())
    text += " at " + label.file + ":" + std::to_string(label.line);
  if (!label.function.empty())
    text += " in " + label.function;
  return text;
}

Status kernelError(int32_t status, const trace::Label &label) {
  switch (status) {
  case ANABRANCH_KERNEL_INDEX_OUT_OF_RANGE:
    return Status(StatusCode::IndexError,
                  "index out of range in " + describe(label));
  case ANABRANCH_KERNEL_DIVISION_BY_ZERO:
    return Status(StatusCode::ZeroDivision,
                  "integer division by zero in " + describe(label));
  case ANABRANCH_KERNEL_WEIGHT_OUT_OF_RANGE:
    return Status(StatusCode::InvalidArgument,
                  "a frozen weight of few bits has integers now that its "
                  "layout cannot hold; compile the model again: " +
                      describe(label));
  default:
    return Status(StatusCode::Internal, "kernel status " +
                                            std::to_string(status) + " in " +
                                            describe(label));
  }
}

} // namespace anabranch::runtime
