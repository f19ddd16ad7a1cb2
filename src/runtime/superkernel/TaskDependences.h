//===- TaskDependences.h - what a task waits for ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

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
