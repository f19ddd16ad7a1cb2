//===- FlattenCommands.h - streams of a program as arrays -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_FLATTENCOMMANDS_H
#define ANABRANCH_RUNTIME_PLAN_FLATTENCOMMANDS_H

#include "package/verify/SerialOrder.h"
#include "runtime/device/Library.h"
#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// Flattens the streams of a program, or those of its initialisation, into
/// `commands`, and adds their labels to `info`. The plan must already have its
/// buffers. A buffer that a command reads as a tensor gets a place for its
/// view.
Status flattenCommands(const package::ProgramT &program,
                       const package::Streams &streams, const Library *library,
                       trace::ProgramInfo &info, Plan &plan,
                       Commands &commands);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_FLATTENCOMMANDS_H
