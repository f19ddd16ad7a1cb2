//===- VerifyLinalg.cpp - what may remain at level "linalg" ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/passes/Passes.h"
#include "ir/Anabranch.h"
#include "ir/PassBase.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {

/// The operations of docs/design/foundation.md, section 3.
static bool isLinalgLevel(Operation *op) {
  if (isa<arith::ArithDialect, math::MathDialect>(op->getDialect()))
    return true;
  return isa<func::FuncOp, func::ReturnOp, linalg::GenericOp, linalg::FillOp,
             linalg::YieldOp, linalg::IndexOp, tensor::EmptyOp, tensor::DimOp,
             tensor::CastOp, tensor::ExtractOp, tensor::ExtractSliceOp,
             tensor::InsertSliceOp, tensor::ExpandShapeOp,
             tensor::CollapseShapeOp, ir::AtenOp, ir::ByteDotOp, ir::CheckOp,
             ir::ExpectOp, ir::FenceOp, ir::ScatterOp, ir::ScanOp,
             ir::AttentionOp, ir::FftOp, ir::ReinterpretOp, ir::YieldOp>(op);
}

namespace {

LogicalResult verifyLinalg(func::FuncOp main) {
  LogicalResult result = success();
  main.walk([&](Operation *op) {
    if (!isLinalgLevel(op))
      result = op->emitOpError("is not of level \"linalg\"");
  });
  return result;
}

} // namespace

std::unique_ptr<Pass> createVerifyLinalgPass() {
  return ir::makePass<func::FuncOp>(
      "anabranch-verify-linalg",
      "fails unless only operations of level \"linalg\" remain", verifyLinalg);
}

} // namespace anabranch
