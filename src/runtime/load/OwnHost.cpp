//===- OwnHost.cpp - the host of a package that needs none ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/load/OwnHost.h"

#include "anabranch/Layout.h"
#include "package/verify/Extent.h"
#include "runtime/device/DeviceBuffer.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace anabranch::runtime {

namespace {

struct Made {
  Made(const Device &device, const TensorView &like)
      : memory(device), shape(like.shape, like.shape + like.rank),
        strides(contiguousStrides(like.shape, like.rank)) {}

  DeviceBuffer memory;
  std::vector<int64_t> shape, strides;
  std::atomic<int> owners{1};
};

Status refuse(const char *op) {
  return Status(StatusCode::Unsupported,
                std::string("only the host has the operator ") + op);
}

} // namespace

Expected<void *> OwnHost::prepare(const char *op, const char *) {
  return refuse(op);
}

Status OwnHost::call(const HostCall &call, HostResult *) {
  return refuse(call.op);
}

Expected<HostResult> OwnHost::make(const TensorView &like) {
  package::Extent extent =
      package::extentOf(like.shape, nullptr, like.rank, itemSize(like.dtype));
  if (!extent.fits)
    return Status::outOfMemory();
  auto made = std::make_unique<Made>(device, like);
  if (!made->memory.reserve(std::max<size_t>(extent.end, 1)))
    return Status::outOfMemory();
  TensorView tensor = {made->memory.get(), made->shape.data(),
                       made->strides.data(), like.rank, like.dtype};
  return HostResult{made.release(), tensor};
}

void *OwnHost::retain(void *handle) {
  ++static_cast<Made *>(handle)->owners;
  return handle;
}

void OwnHost::release(void *handle) {
  auto *made = static_cast<Made *>(handle);
  if (made && --made->owners == 0)
    delete made;
}

} // namespace anabranch::runtime
