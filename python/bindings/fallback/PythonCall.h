//===- PythonCall.h - run an operator through Python ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_PYTHONCALL_H
#define ANABRANCH_BINDINGS_PYTHONCALL_H

#include "anabranch/HostCalls.h"
#include "fallback/TorchSchema.h"
#include "tensors/DLPack.h"

#include <vector>

namespace anabranch::python {

/// Calls an operator through Python, which can carry every argument. The
/// function takes the GIL itself. `results` gets one entry for each result; an
/// entry is null if the program does not read the result.
Status callByPython(const TorchOperator &op, const HostCall &call,
                    std::vector<dlpack::ManagedTensor *> &results);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_PYTHONCALL_H
