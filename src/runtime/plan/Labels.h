//===- Labels.h - what traces and errors say of commands --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_LABELS_H
#define ANABRANCH_RUNTIME_PLAN_LABELS_H

#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The label of a launch, call, copy or super kernel. The caller sets its
/// stream.
trace::Label labelOf(const package::ProgramT &program,
                     const package::CommandT &command);

/// The label of a launch in a super kernel. The caller sets the super kernel.
trace::Label labelOf(const package::ProgramT &program,
                     const package::LaunchT &launch, int location);

/// The user's tag, or the stream's number.
std::string streamName(const package::StreamT &stream, size_t number);

/// Adds the pairs of commands of which one waits for the other, from the
/// streams' records and waits.
void addEventEdges(const Commands &commands, trace::ProgramInfo &info);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_LABELS_H
