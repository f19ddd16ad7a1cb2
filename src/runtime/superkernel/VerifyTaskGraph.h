//===- VerifyTaskGraph.h - do the counters suffice? -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_SUPERKERNEL_VERIFYTASKGRAPH_H
#define ANABRANCH_RUNTIME_SUPERKERNEL_VERIFYTASKGRAPH_H

#include "runtime/superkernel/TaskAccesses.h"
#include "runtime/superkernel/TaskGraph.h"

#include <string>

namespace anabranch::runtime {

/// Checks that the counters alone order every two tasks that share a byte which
/// one of them writes, and the launches whose order the program asks for.
/// Returns an empty text, or what is wrong. It shares only the accesses with
/// `findDependences`.
std::string verifyTaskGraph(const TaskAccesses &accesses,
                            const TaskGraph &graph);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SUPERKERNEL_VERIFYTASKGRAPH_H
