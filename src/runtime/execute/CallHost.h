//===- CallHost.h - run an operator that is no kernel -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_CALLHOST_H
#define ANABRANCH_RUNTIME_EXECUTE_CALLHOST_H

#include "runtime/execute/CallFrame.h"

namespace anabranch::runtime {

/// Runs an operator, on the host or in the runtime, and binds its results to
/// their buffers. Only the thread that called the program may call this.
Status callHost(CallFrame &frame, int call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_CALLHOST_H
