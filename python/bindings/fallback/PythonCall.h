//===- PythonCall.h - run an operator through Python ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_BINDINGS_PYTHONCALL_H
#define ANABRANCH_BINDINGS_PYTHONCALL_H

#include "anabranch/HostCalls.h"
#include "fallback/TorchSchema.h"
#include "tensors/DLPack.h"

#include <vector>

namespace anabranch::python {

/// The way that takes every operator. Takes the GIL itself. `results` gets one
/// entry for each result, null where nobody wants it.
Status callByPython(const TorchOperator &op, const HostCall &call,
                    std::vector<dlpack::ManagedTensor *> &results);

} // namespace anabranch::python

#endif // ANABRANCH_BINDINGS_PYTHONCALL_H
