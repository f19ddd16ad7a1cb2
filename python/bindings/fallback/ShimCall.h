//===- ShimCall.h - run an operator through libtorch's C shim ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_SHIMCALL_H
#define ANABRANCH_BINDINGS_SHIMCALL_H

#include "anabranch/HostCalls.h"
#include "fallback/TorchSchema.h"
#include "tensors/DLPack.h"

#include <vector>

namespace anabranch::python {

/// Whether the shim exists and can carry the operator's arguments and results.
bool shimTakes(const TorchOperator &op);

/// Runs the operator without the GIL. False if anything failed: the caller then
/// makes the same call through Python, which succeeds or raises the right
/// exception.
bool callByShim(const TorchOperator &op, const HostCall &call,
                std::vector<dlpack::ManagedTensor *> &results);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_SHIMCALL_H
