//===- Labels.h - what traces and errors say of commands --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_PLAN_LABELS_H
#define ANABRANCH_RUNTIME_PLAN_LABELS_H

#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// Of a launch, call, copy or super kernel; the stream is left to the caller.
trace::Label labelOf(const package::ProgramT &program,
                     const package::CommandT &command);

/// Of a launch in a super kernel; which one is left to the caller.
trace::Label labelOf(const package::ProgramT &program,
                     const package::LaunchT &launch, int location);

/// The user's tag, or the number.
std::string streamName(const package::StreamT &stream, size_t number);

/// Which command waits for which, by the records and waits of the streams.
void addEventEdges(const Commands &commands, trace::ProgramInfo &info);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_LABELS_H
