//===- Actions.h - which buffers a command touches --------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PACKAGE_VERIFY_ACTIONS_H
#define ANABRANCH_PACKAGE_VERIFY_ACTIONS_H

#include "package/program_generated.h"

#include <functional>

namespace anabranch::package {

/// Called with a buffer, and whether it is written.
using AccessVisitor = std::function<void(int buffer, bool writes)>;

/// An action that works on whole tensors at once, on one thread: a copy. A row
/// of the table in Actions.cpp is all that the reader, the verifier and
/// `inspect` need of it; the runtime's row is in runtime/plan/Steps.cpp.
struct StepKind {
  Action action;
  const char *name; ///< in traces and for `inspect`
  /// In the order in which the runtime's function gets the tensors.
  void (*visit)(const ActionUnion &action, const AccessVisitor &visit);
  /// What is wrong with the types of the buffers, which are there; null:
  /// nothing, or there is nothing to check.
  const char *(*complain)(const ProgramT &program, const ActionUnion &action);
};

/// Null for what is no step: launches, calls, events, super kernels.
const StepKind *stepKindOf(const ActionUnion &action);

/// Calls `visit(buffer, writes)` for every buffer that the command touches.
void forEachAccess(const LaunchT &launch, const AccessVisitor &visit);
void forEachAccess(const ActionUnion &action, const AccessVisitor &visit);

/// Calls `visit(buffer)` for the tensors of an argument of a Call.
void forEachTensor(const ArgumentT &argument,
                   const std::function<void(int)> &visit);

/// Per buffer: whether a command of a call, not of `initialize`, touches it.
std::vector<bool> readByCalls(const ProgramT &program);

} // namespace anabranch::package

#endif // ANABRANCH_PACKAGE_VERIFY_ACTIONS_H
