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

enum class ShimOutcome {
  Done,
  NotCalled, ///< the shim cannot carry these arguments
  Failed     ///< the operator failed, or a result has no plain memory
};

/// Runs the operator without the GIL.
ShimOutcome callByShim(const TorchOperator &op, const HostCall &call,
                       std::vector<dlpack::ManagedTensor *> &results);

/// The error of the last failed call of this thread: the exception of an
/// operator in Python, or libtorch's message.
Status shimFailure(const TorchOperator &op);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_SHIMCALL_H
