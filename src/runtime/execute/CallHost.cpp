//===- CallHost.cpp - run an operator that is no kernel -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/execute/CallHost.h"

#include "anabranch/Layout.h"
#include "runtime/device/Describe.h"

#include <algorithm>
#include <cstring>

namespace anabranch::runtime {

namespace {

/// The slot of a float holds its bits.
void takeNumber(HostArgument &argument, int64_t word) {
  if (argument.kind == HostArgument::Kind::Float)
    std::memcpy(&argument.real, &word, sizeof(word));
  else
    argument.integer = word;
}

void fillArguments(CallFrame &frame, int number) {
  const Plan &plan = frame.plan;
  std::vector<HostArgument> &list = frame.hostResults.arguments[number];
  for (const ArgumentPatch &patch : frame.commands.calls[number].patches) {
    HostArgument &a = list[patch.argument];
    if (patch.buffer < 0)
      takeNumber(a, valueOf(patch.size, frame.slots.data()));
    else if (patch.view >= 0)
      a.tensor = frame.viewOf(frame.commands.views[patch.view]);
    else if (plan.buffers[patch.buffer].kind == BufferKind::External)
      // The operand is the tensor that the other operator returned, without a
      // copy.
      a.tensor = frame.hostResults[patch.buffer].host.tensor;
    else
      a.tensor = frame.viewOf(patch.buffer);
  }
}

bool sameNumbers(const int64_t *a, const int64_t *b, int32_t count) {
  return std::equal(a, a + count, b);
}

/// Binds a result whose size the run decides. Only calls, regions and the
/// caller read it; a region gets it contiguous.
Status bindRunSized(CallFrame &frame, const CallPlan &call, int buffer,
                    const TensorView &got) {
  const BufferPlan &b = frame.plan.buffers[buffer];
  HostResults::Result &slot = frame.hostResults[buffer];
  slot.data = got.data;
  if (!b.readByKernels)
    return {};
  // The region checks the sizes.
  if (got.rank != static_cast<int32_t>(b.shape.size()) || got.dtype != b.dtype)
    return Status(StatusCode::Internal, call.op + " returned " + describe(got) +
                                            ", of another dtype or rank than "
                                            "the program expects");
  if (isContiguous(got))
    return {};
  TensorView dense = got;
  dense.strides = nullptr;
  size_t bytes = static_cast<size_t>(elementsOf(got)) * itemSize(got.dtype);
  slot.copy = std::make_unique<DeviceBuffer>(*frame.plan.device);
  if (!slot.copy->reserve(bytes))
    return Status::outOfMemory();
  slot.data = dense.data = slot.copy->get();
  frame.plan.device->copy(got, dense);
  return {};
}

Status bindResult(CallFrame &frame, const CallPlan &call, int buffer,
                  const HostResult &result) {
  const Device &device = *frame.plan.device;
  const BufferPlan &b = frame.plan.buffers[buffer];
  const TensorView &got = result.tensor;
  if (b.runSized)
    return bindRunSized(frame, call, buffer, got);
  TensorView want = frame.viewOf(buffer);
  HostResults::Result &slot = frame.hostResults[buffer];
  // If no kernel reads the result, its dtype and rank are not checked: other
  // operators and the caller judge it. Eager PyTorch sometimes returns another
  // dtype than its own trace says.
  if (b.readByKernels && (got.rank != want.rank || got.dtype != want.dtype ||
                          !sameNumbers(got.shape, want.shape, want.rank)))
    return Status(StatusCode::Internal, call.op + " returned " + describe(got) +
                                            " where the program expects " +
                                            describe(want));
  slot.data = got.data;
  if (!b.readByKernels)
    return {};
  if (!hasStrides(got, want.strides)) {
    int64_t count = 1;
    for (int32_t i = 0; i < want.rank; ++i)
      count += (want.shape[i] - 1) * want.strides[i];
    slot.copy = std::make_unique<DeviceBuffer>(device);
    if (!slot.copy->reserve(static_cast<size_t>(count) * itemSize(b.dtype)))
      return Status::outOfMemory();
    slot.data = want.data = slot.copy->get();
    device.copy(got, want);
  }
  for (OperandPatch patch : frame.commands.resultPatches[buffer])
    frame.launches.operands[patch.operand] = slot.data;
  return {};
}

} // namespace

Status callHost(CallFrame &frame, int number) {
  const CallPlan &call = frame.commands.calls[number];
  HostCalls &host = *frame.plan.host;
  std::vector<HostResult> &fresh = frame.hostResults.fresh;
  fillArguments(frame, number);
  std::fill(fresh.begin(), fresh.end(), HostResult());
  HostCall request;
  request.op = call.op.c_str();
  request.overload = call.overload.c_str();
  request.prepared = call.prepared;
  request.arguments = frame.hostResults.arguments[number].data();
  request.argumentCount = call.argumentCount;
  request.resultCount = call.results.size();
  request.wanted = call.wanted.get();
  request.location = call.location.c_str();
  Status called = call.own
                      ? runOwnOperator(call.own, host, request, fresh.data())
                      : host.call(request, fresh.data());
  if (!called.ok())
    return called;
  Status failure;
  for (size_t i = 0; i < call.results.size(); ++i) {
    int buffer = call.results[i];
    if (buffer < 0 || !fresh[i].handle) {
      if (fresh[i].handle)
        host.release(fresh[i].handle);
      else if (buffer >= 0 && failure.ok())
        failure = Status(StatusCode::Internal,
                         call.op + " did not return what the program expects");
      continue;
    }
    frame.hostResults[buffer].host = fresh[i];
    if (failure.ok())
      failure = bindResult(frame, call, buffer, fresh[i]);
  }
  return failure;
}

} // namespace anabranch::runtime
