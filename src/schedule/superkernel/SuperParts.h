//===- SuperParts.h - launches that may become one command ------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_SUPERKERNEL_SUPERPARTS_H
#define ANABRANCH_SCHEDULE_SUPERKERNEL_SUPERPARTS_H

#include "ir/Anabranch.h"

#include <string>

namespace anabranch {
namespace schedule {

/// A part of a scope on one stream, or launches that no scope marks.
struct SuperPart {
  ir::SuperAttr scope; ///< null: none marks them
  llvm::SmallVector<ir::LaunchOp> members;
  /// What stands between them and does not depend on them. Waits for other
  /// streams don't: nothing is recorded between the members.
  llvm::SmallVector<mlir::Operation *> earlier;
  /// What stands behind the members although the scope goes on, and why it is
  /// no member; whether it is of the scope itself.
  mlir::Operation *breaker = nullptr;
  std::string reason;
  bool isOwn = true;
};

/// Whether the launches had better wait together than one by one.
using IsEarly = llvm::function_ref<bool(ir::WaitOp, const SuperPart &)>;

/// The parts of a stream that scopes mark, or those that none does, in order.
/// Moves nothing.
void findParts(ir::StreamOp stream, bool marked, IsEarly isEarly,
               llvm::SmallVectorImpl<SuperPart> &parts);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_SUPERKERNEL_SUPERPARTS_H
