//===- FoundResults.cpp - results whose size the run finds ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/api/FoundResults.h"

#include <algorithm>
#include <exception>
#include <new>
#include <string>
#include <utility>

namespace anabranch::runtime {

static Status copyResult(const Device &device, OutputValue &output,
                         size_t index, OutputAllocator &allocator) {
  const TensorView found = output.tensor;
  output.kind = OutputValue::Kind::Tensor;
  output.tensor.data = nullptr;
  if (Status s = allocator.allocateFound(output, index); !s.ok())
    return s;
  bool isEmpty = std::count(found.shape, found.shape + found.rank, 0) != 0;
  if (!output.tensor.data && !isEmpty)
    return Status(StatusCode::OutOfMemory,
                  "no memory for output " + std::to_string(index));
  TensorView place = found;
  place.data = output.tensor.data;
  if (!isEmpty)
    device.copy(found, place);
  output.tensor.shape = output.tensor.strides = nullptr;
  return {};
}

/// A caller's allocator may throw, like the functions of the standard library.
static Status tryCopy(const Device &device, OutputValue &output, size_t index,
                      OutputAllocator &allocator) {
  try {
    return copyResult(device, output, index, allocator);
  } catch (const std::bad_alloc &) {
    return Status::outOfMemory();
  } catch (const std::exception &e) {
    return Status(StatusCode::Internal, e.what());
  }
}

Status copyFoundResults(HostCalls &host, const Device &device,
                        OutputValue *outputs, size_t count,
                        OutputAllocator &allocator) {
  Status done;
  for (size_t i = 0; i < count; ++i) {
    if (outputs[i].kind != OutputValue::Kind::External)
      continue;
    if (done.ok())
      done = tryCopy(device, outputs[i], i, allocator);
    outputs[i].kind = OutputValue::Kind::Tensor;
    host.release(std::exchange(outputs[i].handle, nullptr));
  }
  return done;
}

} // namespace anabranch::runtime
