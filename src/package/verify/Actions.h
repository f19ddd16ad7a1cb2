//===- Actions.h - which buffers a command touches --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PACKAGE_VERIFY_ACTIONS_H
#define ANABRANCH_PACKAGE_VERIFY_ACTIONS_H

#include "package/program_generated.h"

#include <functional>
#include <set>

namespace anabranch::package {

/// Gets a buffer, and whether it is written.
using AccessVisitor = std::function<void(int buffer, bool writes)>;

/// A step: an action on whole tensors, at once and on one thread, such as a
/// copy. Its row in Actions.cpp is all that the reader, the verifier and
/// `inspect` need. Its row in runtime/plan/Steps.cpp has the function.
struct StepKind {
  Action action;
  const char *name; ///< in traces and for `inspect`
  /// Visits the tensors, in the order in which the runtime's function gets
  /// them.
  void (*visit)(const ActionUnion &action, const AccessVisitor &visit);
  /// The error in the types of the buffers, whose numbers were checked.
  /// Null: nothing is wrong. The function itself may be null.
  const char *(*complain)(const ProgramT &program, const ActionUnion &action);
};

/// Null for other actions: launches, calls, events, super kernels.
const StepKind *stepKindOf(const ActionUnion &action);

/// Calls `visit(buffer, writes)` for every buffer that the command touches.
void forEachAccess(const LaunchT &launch, const AccessVisitor &visit);
void forEachAccess(const ActionUnion &action, const AccessVisitor &visit);

/// Calls `visit(buffer)` for the tensors of an argument of a Call.
void forEachTensor(const ArgumentT &argument,
                   const std::function<void(int)> &visit);

/// The buffers that the operator of a Call writes, besides its results.
std::set<int> writtenArguments(const CallT &call);

/// For each input, whether `initialize` reads it.
std::vector<bool> readByInitialize(const ProgramT &program);
bool initializesFromInputs(const ProgramT &program);

/// For each buffer, whether a command of calls, not only of `initialize`,
/// touches it.
std::vector<bool> readByCalls(const ProgramT &program);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_ACTIONS_H
