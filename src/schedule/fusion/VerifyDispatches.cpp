//===- VerifyDispatches.cpp - what may remain at level "dispatch" ---------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "ir/Anabranch.h"
#include "schedule/Passes.h"
#include "schedule/fusion/OpKinds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;

namespace anabranch {
namespace {

struct VerifyDispatchesPass
    : PassWrapper<VerifyDispatchesPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(VerifyDispatchesPass)

  StringRef getArgument() const final { return "anabranch-verify-dispatches"; }
  StringRef getDescription() const final {
    return "fails unless @main is of level \"dispatch\"";
  }

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
