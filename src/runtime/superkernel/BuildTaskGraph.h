//===- BuildTaskGraph.h - cut a super kernel into tasks ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_BUILDTASKGRAPH_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_BUILDTASKGRAPH_H

#include "runtime/plan/Plan.h"
#include "runtime/superkernel/TaskGraph.h"

namespace anabranch::runtime {

/// Builds the tasks and dependences of one super kernel for a size table, and
/// verifies that the dependences suffice. The plan must have its buffers. An
/// error if a kernel's grid makes no sense.
Expected<TaskGraph> buildTaskGraph(const Plan &plan, const Commands &commands,
                                   const SuperKernel &super,
                                   const std::vector<int64_t> &slots);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_BUILDTASKGRAPH_H
