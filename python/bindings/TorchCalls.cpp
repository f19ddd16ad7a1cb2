//===- TorchCalls.cpp - operators through PyTorch's dispatcher ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "TorchCalls.h"
#include "Errors.h"
#include "PythonCall.h"
#include "ShimCall.h"
#include "Torch.h"

#include <nanobind/nanobind.h>

namespace nb = nanobind;
using namespace anabranch;
using namespace anabranch::python;

TorchCalls &TorchCalls::get() {
  static auto *calls = new TorchCalls();
  return *calls;
}

Expected<void *> TorchCalls::prepare(const char *op, const char *overload) {
  std::string key = std::string(op) + "." + overload;
  {
    std::lock_guard<std::mutex> guard(lock);
    auto found = operators.find(key);
    if (found != operators.end())
      return static_cast<void *>(found->second.get());
  }
  // Without the lock: Python may let another thread run that wants it.
  std::unique_ptr<TorchOperator> made;
  {
    nb::gil_scoped_acquire gil;
    made = TorchOperator::find(op, overload);
    if (!made)
      return stashError();
  }
  made->byShim = shimTakes(*made);
  std::lock_guard<std::mutex> guard(lock);
  auto &kept = operators.emplace(key, std::move(made)).first->second;
  return static_cast<void *>(kept.get());
}

Status TorchCalls::call(const HostCall &call, HostResult *results) {
  const auto &op = *static_cast<const TorchOperator *>(call.prepared);
  std::vector<dlpack::ManagedTensor *> tensors(call.resultCount);
  Status status;
  if (!op.byShim || !callByShim(op, call, tensors)) {
    releaseAll(tensors);
    status = callByPython(op, call, tensors);
  }
  if (!status.ok()) {
    releaseAll(tensors);
    return status;
  }
  for (size_t i = 0; i < call.resultCount; ++i) {
    if (!tensors[i])
      continue;
    // The dtype was checked when the result was taken.
    DType dtype = fromDLPack(tensors[i]->tensor.dtype).value_or(DType::U8);
    results[i] = {tensors[i], viewOf(tensors[i]->tensor, dtype)};
  }
  return status;
}

void TorchCalls::releaseAll(std::vector<dlpack::ManagedTensor *> &tensors) {
  for (dlpack::ManagedTensor *&tensor : tensors) {
    release(tensor);
    tensor = nullptr;
  }
}

void TorchCalls::release(void *handle) {
  auto *tensor = static_cast<dlpack::ManagedTensor *>(handle);
  if (tensor && tensor->deleter)
    tensor->deleter(tensor);
}
