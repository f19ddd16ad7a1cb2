//===- ShimCall.h - run an operator through libtorch's C shim ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_SHIMCALL_H
#define ANABRANCH_BINDINGS_SHIMCALL_H

#include "anabranch/HostCalls.h"
#include "fallback/TorchSchema.h"
#include "tensors/DLPack.h"

#include <vector>

namespace anabranch::python {

/// Whether the shim exists and can carry what the operator takes and gives.
bool shimTakes(const TorchOperator &op);

/// Runs without the GIL. False when anything failed: the caller asks Python
/// for the same call, which fails with the right exception or succeeds.
bool callByShim(const TorchOperator &op, const HostCall &call,
                std::vector<dlpack::ManagedTensor *> &results);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_SHIMCALL_H
