//===- SuperCandidates.h - launches that may become one command -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_SUPERKERNEL_SUPERPARTS_H
#define ANABRANCH_SCHEDULE_SUPERKERNEL_SUPERPARTS_H

#include "ir/Anabranch.h"

#include <string>

namespace anabranch {
namespace schedule {

/// Launches that become one super kernel: a candidate of a scope on one stream,
/// or launches without a scope.
struct SuperCandidate {
  ir::SuperAttr scope; ///< null: launches without a scope
  llvm::SmallVector<ir::LaunchOp> members;
  /// Commands between the members that depend on none of them. They include
  /// waits for other streams, since no member records an event.
  llvm::SmallVector<mlir::Operation *> earlier;
  /// The command that ends the candidate although the scope goes on, why it is
  /// no member, and whether it belongs to the scope.
  mlir::Operation *breaker = nullptr;
  std::string reason;
  bool isOwn = true;
};

/// Whether all members may wait for the event, instead of only those that need
/// it.
using IsEarly = llvm::function_ref<bool(ir::WaitOp, const SuperCandidate &)>;

/// Finds the candidates of a stream in order: those of scopes if `marked`, else
/// those of launches without a scope. Moves nothing.
void findCandidates(ir::StreamOp stream, bool marked, IsEarly isEarly,
                    llvm::SmallVectorImpl<SuperCandidate> &candidates);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_SUPERKERNEL_SUPERPARTS_H
