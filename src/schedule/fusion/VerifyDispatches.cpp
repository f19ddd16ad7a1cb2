//===- VerifyDispatches.cpp - what may remain at level "dispatch" ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/fusion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace anabranch {
namespace {

LogicalResult verifyDispatches(func::FuncOp main) {
  LogicalResult result = success();
  for (Operation &op : main.getBody().front()) {
    schedule::OpKind kind = schedule::classify(&op);
    if (isa<ir::DispatchOp, ir::AtenOp, ir::FenceOp>(op) ||
        schedule::isReshape(&op) || kind == schedule::OpKind::Return ||
        kind == schedule::OpKind::Scalar)
      continue;
    result = op.emitOpError("is not of level \"dispatch\"");
  }
  return result;
}

} // namespace

std::unique_ptr<Pass> createVerifyDispatchesPass() {
  return ir::makePass<func::FuncOp>(
      "anabranch-verify-dispatches",
      "fails unless @main is of level \"dispatch\"", verifyDispatches);
}

} // namespace anabranch
