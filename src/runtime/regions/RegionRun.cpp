//===- RegionRun.cpp - one run of a region --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/regions/RegionRun.h"

#include "anabranch/Layout.h"
#include "runtime/device/Describe.h"

#include <algorithm>

namespace anabranch::runtime {

TensorView sliceOf(const TensorView &tensor, int64_t place) {
  TensorView slice = tensor;
  ++slice.shape;
  ++slice.strides;
  --slice.rank;
  int64_t bytes =
      elementsOf(slice) * static_cast<int64_t>(itemSize(tensor.dtype));
  slice.data = static_cast<char *>(tensor.data) + place * bytes;
  return slice;
}

template <typename T> static int64_t itemAs(const void *data) {
  return static_cast<int64_t>(*static_cast<const T *>(data));
}

int64_t RegionCaller::itemOf(int buffer) const {
  TensorView view = buffers.viewOf(buffer);
  if (!plan.device->computes())
    return 0;
  switch (view.dtype) {
  case DType::Bool:
  case DType::U8:
    return itemAs<uint8_t>(view.data);
  case DType::I8:
    return itemAs<int8_t>(view.data);
  case DType::I16:
    return itemAs<int16_t>(view.data);
  case DType::I32:
    return itemAs<int32_t>(view.data);
  default: // an int64_t, or a double whose bits the slot holds
    return itemAs<int64_t>(view.data);
  }
}

void RegionRun::pass(const TensorView &tensor) {
  inputs.emplace_back();
  inputs.back().tensor = tensor;
}

void RegionRun::pass(const RegionArgument &argument) {
  if (argument.buffer >= 0 && !argument.isItem)
    return pass(caller.buffers.viewOf(argument.buffer));
  inputs.emplace_back();
  inputs.back().kind = InputValue::Kind::Scalar;
  inputs.back().scalar = argument.isItem ? caller.itemOf(argument.buffer)
                                         : valueOf(argument.size, caller.slots);
}

void RegionRun::pass(const std::vector<RegionArgument> &arguments) {
  for (const RegionArgument &argument : arguments)
    pass(argument);
}

void RegionRun::take(const std::vector<int> &buffers) {
  for (int buffer : buffers)
    if (caller.plan.buffers[buffer].kind == package::BufferKind::External)
      results.push_back({{}, buffer, {}});
    else
      take(caller.buffers.viewOf(buffer));
}

/// The host makes the tensor now that its size is known.
Status RegionRun::make(Result &result, TensorView &like) {
  Expected<HostResult> made = caller.plan.host->make(like);
  if (!made)
    return made.takeStatus();
  result.made = *made;
  like.data = result.made.tensor.data;
  return {};
}

Status RegionRun::allocate(OutputValue *outputs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    TensorView &made = outputs[i].tensor;
    if (results[i].madeFor >= 0) {
      if (outputs[i].kind != OutputValue::Kind::Tensor)
        continue;
      if (Status s = make(results[i], made); !s.ok())
        return s;
      continue;
    }
    const TensorView &want = results[i].memory;
    if (made.rank != want.rank ||
        !std::equal(made.shape, made.shape + made.rank, want.shape))
      return Status(StatusCode::InvalidArgument,
                    "a region makes " + describe(made) +
                        " where the program expects " + describe(want));
    made.data = want.data;
  }
  return {};
}

/// The caller's call owns the tensors that the host made. After an error nobody
/// needs them.
void RegionRun::keepMade(bool succeeded) {
  for (size_t i = 0; i < results.size(); ++i) {
    Result &result = results[i];
    if (result.madeFor < 0)
      continue;
    if (outputs[i].kind == OutputValue::Kind::External)
      result.made = {outputs[i].handle, outputs[i].tensor};
    if (!result.made.handle)
      continue;
    if (succeeded)
      caller.buffers.keep(result.madeFor, result.made);
    else
      caller.plan.host->release(result.made.handle);
  }
}

Status RegionRun::run(int region) {
  outputs.assign(results.size(), {});
  Status done = caller.plan.regions->run(region, inputs.data(), inputs.size(),
                                         outputs.data(), outputs.size(), *this);
  keepMade(done.ok());
  inputs.clear();
  results.clear();
  return done;
}

} // namespace anabranch::runtime
