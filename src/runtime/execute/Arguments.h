//===- Arguments.h - are these the wanted arguments? ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_ARGUMENTS_H
#define ANABRANCH_RUNTIME_EXECUTE_ARGUMENTS_H

#include "runtime/execute/CallFrame.h"

namespace anabranch::runtime {

/// Checks the arguments of a call against the plan. Fills the frame's size
/// table and input pointers, and resizes the frame if a size changed. It copies
/// arguments that are not aligned to their dtype, and writes no memory of the
/// caller's. An error names the argument.
Status bindInputs(CallFrame &frame, const InputValue *values, size_t count);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_ARGUMENTS_H
