//===- EmitKernel.cpp - a kernel function becomes loops -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/EmitKernel.h"

#include "ir/Anabranch.h"
#include "kernels/Plans.h"
#include "kernels/contraction/BlockingParameters.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

LogicalResult generalizeKernel(func::FuncOp kernel) {
  SmallVector<linalg::LinalgOp> named;
  kernel.walk([&](linalg::LinalgOp op) {
    if (!isa<linalg::GenericOp, linalg::FillOp>(op.getOperation()))
      named.push_back(op);
  });
  IRRewriter rewriter(kernel.getContext());
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    if (failed(linalg::generalizeNamedOp(rewriter, op)))
      return op.emitError("has no generic form");
  }
  return success();
}

/// Fails if anything of the levels above is left after emission.
static LogicalResult verifyLoops(func::FuncOp function) {
  WalkResult result = function.walk([&](Operation *op) {
    bool above =
        isa<linalg::LinalgDialect, tensor::TensorDialect, ir::AnabranchDialect>(
            op->getDialect()) &&
        !isa<ir::ByteDotOp>(op);
    bool tensors = llvm::any_of(
        op->getResultTypes(), [](Type type) { return isa<TensorType>(type); });
    if (!above && !tensors)
      return WalkResult::advance();
    op->emitError("is left after the kernel's loops were made");
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// The plan that tuning gave to the kernel; empty if it gave none.
static FailureOr<std::string> wantedPlan(func::FuncOp kernel) {
  auto text = kernel->getAttrOfType<StringAttr>(BlockingParameters::attribute);
  if (!text)
    return std::string();
  auto given = BlockingParameters::parse(text.getValue());
  if (!given)
    return kernel.emitError("has no blocking '") << text.getValue() << "'";
  return given->plan;
}

/// Writes the functions of the kernel before it.
static LogicalResult emitPlan(Plan &plan, func::FuncOp kernel,
                              const native::TargetInfo &target) {
  if (failed(plan.prepare()))
    return failure();
  using Setup = llvm::function_ref<void(KernelShell::TileBody &)>;
  auto setup = [&](KernelShell::TileBody &body) { plan.emitSetup(body); };
  KernelShell shell{kernel, target};
  return shell.emit(
      [&](KernelShell::TileBody &body) { plan.emitTile(body); },
      [&](KernelFunction &function) { return plan.grid(function); },
      [&](KernelShell::FootprintBody &body) { plan.emitFootprint(body); },
      plan.hasSetup() ? Setup(setup) : Setup());
}

LogicalResult emitKernel(func::FuncOp kernel,
                         const native::TargetInfo &target) {
  if (failed(generalizeKernel(kernel)))
    return failure();
  FailureOr<std::string> wanted = wantedPlan(kernel);
  if (failed(wanted))
    return failure();
  std::vector<Considered> considered = considerPlans(kernel, target);
  Considered *chosen = choosePlan(considered, *wanted);
  if (!chosen)
    return kernel.emitError("no plan makes this kernel for target ")
           << target.name << refusalsOf(considered);
  explainPlans(kernel, considered, *chosen);
  Operation *before = kernel->getPrevNode();
  if (failed(emitPlan(*chosen->proposal.plan, kernel, target)))
    return failure();
  Operation *made =
      before ? before->getNextNode() : &kernel->getBlock()->front();
  for (; made != kernel; made = made->getNextNode())
    if (auto function = dyn_cast<func::FuncOp>(made))
      if (failed(verifyLoops(function)))
        return failure();
  kernel.erase();
  return success();
}

} // namespace kernels
} // namespace anabranch
