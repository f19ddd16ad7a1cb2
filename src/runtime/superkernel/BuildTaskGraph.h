//===- BuildTaskGraph.h - cut a super kernel into tasks ---------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_BUILDTASKGRAPH_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_BUILDTASKGRAPH_H

#include "runtime/plan/Plan.h"
#include "runtime/superkernel/TaskGraph.h"

namespace anabranch::runtime {

/// The tasks of one super kernel of a plan that has all its buffers, and their
/// dependences, which are proven to suffice. An error if a kernel's grid makes
/// no sense.
Expected<TaskGraph> buildTaskGraph(const Plan &plan, const Commands &commands,
                                   const SuperKernel &super);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_BUILDTASKGRAPH_H
