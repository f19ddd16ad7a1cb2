//===- StreamPass.h - a pass over the streams of calls ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_STREAMPASS_H
#define ANABRANCH_IR_STREAMPASS_H

#include "ir/PassBase.h"
#include "ir/Scope.h"

namespace anabranch {
namespace ir {

/// A pass that calls `function` with each stream that runs at each call.
inline std::unique_ptr<mlir::Pass>
makeStreamPass(llvm::StringLiteral argument, llvm::StringLiteral description,
               void (*function)(StreamOp)) {
  return makePass<mlir::ModuleOp>(
      argument, description, [function](mlir::ModuleOp module) {
        for (StreamOp stream : streamsOfCalls(module))
          function(stream);
        return mlir::success();
      });
}

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_STREAMPASS_H
