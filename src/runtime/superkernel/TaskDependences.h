//===- TaskDependences.h - what a task waits for ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_TASKDEPENDENCES_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_TASKDEPENDENCES_H

#include "runtime/superkernel/TaskAccesses.h"
#include "runtime/superkernel/TaskGraph.h"

namespace anabranch::runtime {

/// Fills in `dependences`, `signals` and `counters` of the graph, and the
/// tasks' indices into them.
void findDependences(const TaskAccesses &accesses, TaskGraph &graph);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_TASKDEPENDENCES_H
