//===- RegionRun.cpp - one run of a region --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/regions/RegionRun.h"

#include "runtime/plan/Describe.h"

#include <algorithm>

namespace anabranch::runtime {

TensorView sliceOf(const TensorView &tensor, int64_t place) {
  TensorView slice = tensor;
  ++slice.shape;
  ++slice.strides;
  --slice.rank;
  auto bytes = static_cast<int64_t>(itemSize(tensor.dtype));
  for (int32_t d = 0; d < slice.rank; ++d)
    bytes *= slice.shape[d];
  slice.data = static_cast<char *>(tensor.data) + place * bytes;
  return slice;
}

void RegionRun::pass(const TensorView &tensor) {
  inputs.emplace_back();
  inputs.back().tensor = tensor;
}

void RegionRun::pass(const RegionArgument &argument) {
  if (argument.buffer >= 0)
    return pass(caller.buffers.viewOf(argument.buffer));
  inputs.emplace_back();
  inputs.back().kind = InputValue::Kind::Scalar;
  inputs.back().scalar = valueOf(argument.size, caller.slots);
}

void RegionRun::pass(const std::vector<RegionArgument> &arguments) {
  for (const RegionArgument &argument : arguments)
    pass(argument);
}

void RegionRun::take(const std::vector<int> &buffers) {
  for (int buffer : buffers)
    take(caller.buffers.viewOf(buffer));
}

Status RegionRun::allocate(OutputValue *outputs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    TensorView &made = outputs[i].tensor;
    const TensorView &want = results[i];
    if (made.rank != want.rank ||
        !std::equal(made.shape, made.shape + made.rank, want.shape))
      return Status(StatusCode::InvalidArgument,
                    "a region makes " + describe(made) +
                        " where the program expects " + describe(want));
    made.data = want.data;
  }
  return {};
}

Status RegionRun::run(int region) {
  outputs.assign(results.size(), {});
  Status done = caller.plan.regions->run(region, inputs.data(), inputs.size(),
                                         outputs.data(), outputs.size(), *this);
  inputs.clear();
  results.clear();
  return done;
}

} // namespace anabranch::runtime
