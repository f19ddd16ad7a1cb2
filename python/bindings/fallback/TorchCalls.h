//===- TorchCalls.h - operators through PyTorch's dispatcher ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The wing `fallback` calls PyTorch's operators for programs. Start here.
//
//   TorchCalls   looks operators up and chooses how to call each
//   TorchSchema  the arguments and results of an operator
//   ShimCall     calls an operator through libtorch's C shim
//   PythonCall   calls an operator through Python
//   HostTimes    the time of one call in PyTorch's operators

#ifndef ANABRANCH_BINDINGS_TORCHCALLS_H
#define ANABRANCH_BINDINGS_TORCHCALLS_H

#include "anabranch/HostCalls.h"
#include "fallback/TorchSchema.h"
#include "tensors/DLPack.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace anabranch::python {

/// Runs operators through libtorch's stable C shim if the shim can carry their
/// arguments, else through Python. A result's handle is a
/// dlpack::ManagedTensor.
class TorchCalls : public HostCalls {
public:
  /// The object is never destroyed, since executables and results point at it.
  static TorchCalls &get();

  Expected<void *> prepare(const char *op, const char *overload) override;
  Status call(const HostCall &call, HostResult *results) override;
  void release(void *handle) override;
  Expected<HostResult> make(const TensorView &like) override;
  /// Runs Python's signal handlers. The error is the exception of one, such as
  /// KeyboardInterrupt.
  Status poll() override;

private:
  void releaseAll(std::vector<dlpack::ManagedTensor *> &tensors);

  std::mutex lock;
  std::map<std::string, std::unique_ptr<TorchOperator>> operators;
};

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_TORCHCALLS_H
