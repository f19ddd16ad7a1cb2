//===- SteadyInput.h - inputs whose values seldom change --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IR_STEADYINPUT_H
#define ANABRANCH_IR_STEADYINPUT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace anabranch {
namespace ir {

/// Whether an argument of @main is frozen, or watched: calls pass a watched
/// one, and say whether it is as it was. What depends on steady arguments alone
/// is computed by `initialize`: at load if they are frozen, else by the first
/// call and by those that find a watched one changed.
inline bool isSteady(mlir::func::FuncOp main, unsigned argument) {
  return main.getArgAttr(argument, "anabranch.constant") ||
         main.getArgAttr(argument, "anabranch.watched");
}

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_STEADYINPUT_H
