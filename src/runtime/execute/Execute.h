//===- Execute.h - run the commands of a frame ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_EXECUTE_EXECUTE_H
#define ANABRANCH_RUNTIME_EXECUTE_EXECUTE_H

#include "runtime/execute/CallFrame.h"

#include <optional>

namespace anabranch::runtime {

/// Runs all commands of a frame that is resized and bound, on at most `threads`
/// workers, this thread among them. `call` is null unless the call is traced.
Status execute(CallFrame &frame, int threads, const trace::Call *call);

/// Fixes the mode if ANABRANCH_EXECUTION says `shared`, `members` or `serial`.
/// Opening a package calls this, so that any other word is an error.
Status executionFromEnvironment();

/// Makes all calls run in this mode; nothing: in the mode that the tuner finds
/// quickest.
void setExecutionMode(std::optional<ExecutionMode> mode);

/// Runs the commands in this mode. `execute` chooses the mode by how long calls
/// took.
Status executeIn(ExecutionMode mode, CallFrame &frame, int threads,
                 const trace::Call *call);
Status executeSerial(CallFrame &frame, const trace::Call *call);
Status executeParallel(ExecutionMode mode, CallFrame &frame, int threads,
                       const trace::Call *call);

/// Runs one command on this thread alone. Events have no effect there.
Status runAlone(CallFrame &frame, const Command &command, LaunchScratch scratch,
                const trace::Call *call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_EXECUTE_H
