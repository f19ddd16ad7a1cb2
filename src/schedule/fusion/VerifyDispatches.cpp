//===- VerifyDispatches.cpp - what may remain at level "dispatch" ---------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "schedule/fusion/OpKinds.h"
#include "schedule/fusion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace anabranch {
namespace {

struct VerifyDispatchesPass : ir::PassBase<VerifyDispatchesPass, func::FuncOp> {
  static constexpr StringLiteral argument = "anabranch-verify-dispatches";
  static constexpr StringLiteral description =
      "fails unless @main is of level \"dispatch\"";

  void runOnOperation() override {
    for (Operation &op : getOperation().getBody().front()) {
      schedule::OpKind kind = schedule::classify(&op);
      if (isa<ir::DispatchOp, ir::AtenOp, ir::FenceOp>(op) ||
          schedule::isReshape(&op) || kind == schedule::OpKind::Return ||
          kind == schedule::OpKind::Scalar)
        continue;
      op.emitOpError("is not of level \"dispatch\"");
      signalPassFailure();
    }
  }
};

} // namespace

std::unique_ptr<Pass> createVerifyDispatchesPass() {
  return std::make_unique<VerifyDispatchesPass>();
}

} // namespace anabranch
