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
  /// Commands that stand between the members and depend on none. Waits for
  /// other streams depend on none: no member records an event.
  llvm::SmallVector<mlir::Operation *> earlier;
  /// The command that ends the part although the scope goes on, the reason why
  /// it is no member, and whether it is of the scope itself.
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
