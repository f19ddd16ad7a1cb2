//===- OwnOperators.h - operators that the runtime runs ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Kernels write results whose sizes are known before they run. The operators of
// this wing decide sizes themselves, so they are calls, as those of a host are.
// The graph names them `runtime::nonzero` (package/verify/RuntimeOperator.h).

#ifndef ANABRANCH_RUNTIME_OPERATORS_OWNOPERATORS_H
#define ANABRANCH_RUNTIME_OPERATORS_OWNOPERATORS_H

#include "anabranch/HostCalls.h"

#include <string>

namespace anabranch::runtime {

class OwnCall;

/// Runs one call. `OwnCall::fail` says that it failed.
using OwnOperator = void (*)(OwnCall &call);

/// Null if there is no such operator.
OwnOperator findOwnOperator(const std::string &name);

/// Runs the operator as `HostCalls::call` does. The host makes the memory of
/// results.
Status runOwnOperator(OwnOperator run, HostCalls &host, const HostCall &call,
                      HostResult *results);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_OPERATORS_OWNOPERATORS_H
