//===- Execute.h - run the commands of a frame ------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_EXECUTE_EXECUTE_H
#define ANABRANCH_RUNTIME_EXECUTE_EXECUTE_H

#include "runtime/execute/CallFrame.h"

#include <optional>

namespace anabranch::runtime {

/// Runs all commands of a frame that is resized and bound, with up to `threads`
/// workers, this thread among them. `call` is null unless traced.
Status execute(CallFrame &frame, int threads, const trace::Call *call);

/// Fixes the mode if ANABRANCH_EXECUTION says `shared`, `members` or `serial`.
/// `Executable::open` asks, so that a wrong word is an error.
Status executionFromEnvironment();

/// Makes all calls run in one mode, or again in what is quickest.
void setExecutionMode(std::optional<ExecutionMode> mode);

/// The same in one mode; `execute` chooses it by how long calls took.
Status executeIn(ExecutionMode mode, CallFrame &frame, int threads,
                 const trace::Call *call);
Status executeSerial(CallFrame &frame, const trace::Call *call);
Status executeParallel(ExecutionMode mode, CallFrame &frame, int threads,
                       const trace::Call *call);

/// Any command but an event, all of it on this thread.
Status runAlone(CallFrame &frame, const Command &command, void *scratch,
                const trace::Call *call);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_EXECUTE_EXECUTE_H
