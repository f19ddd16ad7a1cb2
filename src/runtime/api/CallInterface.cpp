//===- CallInterface.cpp - inputs and outputs in public -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/api/CallInterface.h"

namespace anabranch::runtime {

namespace {

std::vector<int64_t> staticNumbers(const std::vector<Size> &sizes) {
  std::vector<int64_t> numbers;
  numbers.reserve(sizes.size());
  for (const Size &size : sizes)
    numbers.push_back(size.slot() < 0 ? size.value() : -1);
  return numbers;
}

std::vector<int64_t> stridesOr(const std::vector<Size> &strides,
                               const std::vector<int64_t> &shape) {
  if (!strides.empty())
    return staticNumbers(strides);
  std::vector<int64_t> dense(shape.size());
  int64_t next = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    dense[i] = next;
    next = next < 0 || shape[i] < 0 ? -1 : next * shape[i];
  }
  return dense;
}

/// A number in which programs differ becomes -1: it is not known before a call.
void join(std::vector<int64_t> &known, const std::vector<int64_t> &other) {
  for (size_t i = 0; i < known.size() && i < other.size(); ++i)
    if (known[i] != other[i])
      known[i] = -1;
}

/// Sets shape and strides of an input or output to what all programs agree on.
/// `before` is what the earlier programs agree on.
template <typename Info>
void setLayout(Info &info, const std::vector<Size> &shape,
               const std::vector<Size> &strides, const Info *before) {
  info.shape = staticNumbers(shape);
  info.strides = stridesOr(strides, info.shape);
  if (before) {
    join(info.shape, before->shape);
    join(info.strides, before->strides);
  }
}

} // namespace

void CallInterface::add(const package::Package &package, const Plan &plan,
                        bool copiesFound) {
  const package::Signature &signature = package.manifest.signature;
  inputs.resize(plan.inputs.size());
  outputs.resize(plan.outputs.size());
  for (size_t i = 0; i < plan.inputs.size(); ++i) {
    const InputPlan &input = plan.inputs[i];
    InputInfo info;
    if (i < signature.inputs.size() && signature.inputs[i].state)
      info.initial =
          package.constants.find(package::stateConstant(input.name))->data;
    info.name = input.name;
    info.isScalar = input.isScalar;
    info.mutated = input.mutated;
    info.watched = input.watched;
    info.dtype = input.dtype;
    setLayout(info, input.shape, input.strides, isFirst ? nullptr : &inputs[i]);
    inputs[i] = std::move(info);
  }
  for (size_t i = 0; i < plan.outputs.size(); ++i) {
    const OutputPlan &output = plan.outputs[i];
    OutputInfo info;
    if (i < signature.outputs.size())
      info.name = signature.outputs[i];
    info.kind = static_cast<OutputValue::Kind>(output.kind);
    if (copiesFound && info.kind == OutputValue::Kind::External)
      info.kind = OutputValue::Kind::Tensor;
    info.input = output.input;
    if (output.buffer >= 0) {
      const BufferPlan &b = plan.buffers[output.buffer];
      info.dtype = b.dtype;
      setLayout(info, b.shape, b.strides, isFirst ? nullptr : &outputs[i]);
    }
    outputs[i] = std::move(info);
  }
  isFirst = false;
}

} // namespace anabranch::runtime
