//===- OwnCall.cpp - arguments and results of an operator of ours ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/operators/OwnCall.h"

#include "package/verify/Extent.h"
#include "runtime/device/Describe.h"
#include "runtime/device/StridedCopy.h"

#include <cstring>
#include <functional>
#include <new>
#include <numeric>

namespace anabranch::runtime {

std::vector<int64_t> shapeOf(const TensorView &tensor) {
  return {tensor.shape, tensor.shape + tensor.rank};
}

int64_t countOf(const int64_t *first, const int64_t *last) {
  return std::accumulate(first, last, int64_t(1), std::multiplies<>());
}

double realOf(const HostArgument &argument) {
  if (argument.kind == HostArgument::Kind::Int)
    return static_cast<double>(argument.integer);
  return argument.kind == HostArgument::Kind::Float ? argument.real : 0;
}

const HostArgument *OwnCall::find(const char *name) const {
  for (size_t i = 0; i < call.argumentCount; ++i)
    if (std::strcmp(call.arguments[i].name, name) == 0)
      return &call.arguments[i];
  return nullptr;
}

TensorView OwnCall::tensor(const char *name) {
  if (const HostArgument *found = find(name))
    return contiguous(*found);
  fail("lacks the argument " + std::string(name));
  return {};
}

TensorView OwnCall::contiguous(const HostArgument &argument) {
  if (argument.kind != HostArgument::Kind::Tensor) {
    fail(std::string(argument.name) + " is no tensor");
    return {};
  }
  const TensorView &view = argument.tensor;
  return isContiguous(view) ? view : copyOf(view);
}

TensorView OwnCall::copyOf(const TensorView &view) {
  package::Extent extent =
      package::extentOf(view.shape, nullptr, view.rank, itemSize(view.dtype));
  if (!extent.fits)
    throw std::bad_alloc();
  copies.emplace_back(new char[extent.end]);
  TensorView copy = view;
  copy.data = copies.back().get();
  copy.strides = nullptr;
  if (extent.end)
    stridedCopy(view, copy);
  return copy;
}

TensorView OwnCall::broadcast(const TensorView &view,
                              const std::vector<int64_t> &shape) {
  if (shapeOf(view) == shape)
    return view;
  auto rank = static_cast<int32_t>(shape.size());
  std::vector<int64_t> own = contiguousStrides(view.shape, view.rank);
  std::vector<int64_t> strides(shape.size());
  bool fits = view.rank <= rank;
  for (int32_t dim = 0; fits && dim < view.rank; ++dim) {
    int32_t place = rank - view.rank + dim;
    fits = view.shape[dim] == shape[place] || view.shape[dim] == 1;
    strides[place] = view.shape[dim] == 1 ? 0 : own[dim];
  }
  if (!fits) {
    fail("the shape " + describe(view.shape, view.rank) +
         " does not broadcast to " + describe(shape.data(), shape.size()));
    return {};
  }
  TensorView wide{view.data, shape.data(), strides.data(), rank, view.dtype};
  return copyOf(wide);
}

bool OwnCall::has(const char *name) const {
  const HostArgument *found = find(name);
  return found && found->kind != HostArgument::Kind::None;
}

bool OwnCall::boolean(const char *name) const {
  const HostArgument *found = find(name);
  return found && found->kind == HostArgument::Kind::Bool && found->boolean;
}

bool OwnCall::isTensor(const char *name) const {
  const HostArgument *found = find(name);
  return found && found->kind == HostArgument::Kind::Tensor;
}

int64_t OwnCall::integer(const char *name) const {
  const HostArgument *found = find(name);
  return found && found->kind == HostArgument::Kind::Int ? found->integer : 0;
}

double OwnCall::real(const char *name) const {
  const HostArgument *found = find(name);
  return found ? realOf(*found) : 0;
}

const HostArgument *OwnCall::items(const char *name, size_t &count) const {
  const HostArgument *found = find(name);
  bool isList = found && found->kind == HostArgument::Kind::List;
  count = isList ? found->itemCount : 0;
  return isList ? found->items : nullptr;
}

void *OwnCall::make(size_t result, DType dtype,
                    const std::vector<int64_t> &shape) {
  if (!status.ok())
    return nullptr;
  if (result >= call.resultCount) {
    fail("has no result " + std::to_string(result));
    return nullptr;
  }
  TensorView like{nullptr, shape.data(), nullptr,
                  static_cast<int32_t>(shape.size()), dtype};
  Expected<HostResult> made = host.make(like);
  if (!made) {
    fail(made.takeStatus());
    return nullptr;
  }
  results[result] = *made;
  return made->tensor.data;
}

void OwnCall::fail(const std::string &what) {
  fail(Status(StatusCode::InvalidArgument,
              std::string(call.op) + " at " + call.location + ": " + what));
}

void OwnCall::fail(Status failure) {
  if (status.ok())
    status = std::move(failure);
}

Status OwnCall::finish() {
  for (size_t i = 0; !status.ok() && i < call.resultCount; ++i) {
    if (results[i].handle)
      host.release(results[i].handle);
    results[i] = {};
  }
  return std::move(status);
}

} // namespace anabranch::runtime
