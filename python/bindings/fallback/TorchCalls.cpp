//===- TorchCalls.cpp - operators through PyTorch's dispatcher ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "fallback/TorchCalls.h"
#include "fallback/HostTimes.h"
#include "fallback/PythonCall.h"
#include "fallback/ShimCall.h"
#include "support/Errors.h"
#include "support/Gil.h"
#include "support/SmallArray.h"
#include "tensors/Torch.h"

#include <algorithm>
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
    GilTaken gil;
    made = TorchOperator::find(op, overload);
    if (!made)
      return stashError();
  }
  made->byShim = shimTakes(*made);
  std::lock_guard<std::mutex> guard(lock);
  auto &kept = operators.emplace(key, std::move(made)).first->second;
  return static_cast<void *>(kept.get());
}

Status TorchCalls::poll() {
  GilTaken gil;
  return PyErr_CheckSignals() ? stashError() : Status();
}

namespace {

/// The arguments in the order of the schema, whatever order they came in.
/// False when one is missing.
bool orderBySchema(const TorchOperator &op, const HostCall &call,
                   HostArgument *ordered) {
  const HostArgument *end = call.arguments + call.argumentCount;
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    const std::string &wanted = op.arguments[i].name;
    const HostArgument *found = call.arguments + op.placesByName[i];
    if (found >= end || wanted != found->name)
      found = std::find_if(call.arguments, end, [&](const HostArgument &given) {
        return wanted == given.name;
      });
    if (found == end)
      return false;
    ordered[i] = *found;
  }
  return true;
}

/// Most operators have no more arguments, so a call allocates nothing for them.
constexpr size_t usualArguments = 16;

} // namespace

Status TorchCalls::call(const HostCall &given, HostResult *results) {
  HostTimes::Operator timed(given);
  const auto &op = *static_cast<const TorchOperator *>(given.prepared);
  SmallArray<HostArgument, usualArguments> arguments(op.arguments.size());
  if (!orderBySchema(op, given, arguments.data()))
    return Status(StatusCode::HostError,
                  std::string(given.op) + " lacks an argument");
  HostCall call = given;
  call.arguments = arguments.data();
  call.argumentCount = op.arguments.size();
  std::vector<dlpack::ManagedTensor *> tensors(call.resultCount);
  ShimOutcome outcome =
      op.byShim ? callByShim(op, call, tensors) : ShimOutcome::NotCalled;
  Status status;
  if (outcome == ShimOutcome::Failed && op.writes) {
    status = shimFailure(op);
  } else if (outcome != ShimOutcome::Done) {
    // A call that writes nothing is made again through Python, which succeeds
    // or raises the right exception.
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

Expected<HostResult> TorchCalls::make(const TensorView &like) {
  GilTaken gil;
  const Torch &torch = Torch::get();
  TensorView made = like;
  PyObject *tensor = torch.allocate(made);
  dlpack::ManagedTensor *managed = tensor ? torch.fromObject(tensor) : nullptr;
  Py_XDECREF(tensor);
  if (!managed)
    return stashError();
  return HostResult{managed, viewOf(managed->tensor, like.dtype)};
}

void TorchCalls::release(void *handle) {
  auto *tensor = static_cast<dlpack::ManagedTensor *>(handle);
  if (tensor && tensor->deleter)
    tensor->deleter(tensor);
}
