//===- MultiplyIntegers.cpp - quantised products as integers --------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: %x = (%a - zero) * scale, %a of bytes; %w likewise, by aten calls
//         %r = anabranch.aten "linear"(%x, %w, %bias)
// After:  %p = contraction(%a, %b) in i32
//         %r = generic {(%p - zero * sum(%b)) * scales + %bias}
// or, where %w has scales along the depth,
//         %p = contraction(float(%a), %w)
//         %r = generic {(%p - zero * sum(%w)) * scale + %bias}
// and     %q = generic {byte(roundeven(clamp(%r, low - zero, high - zero))) +
//                       zero}
// of      %q = byte(clamp(round(%r) + zero, low, high))
//
// Graphs that PyTorch's quantisation made multiply dequantised tensors. The
// integers give the same result with less rounding, and processors multiply
// bytes several times as fast as floats.

#include "import/passes/Passes.h"
#include "import/quantized/IntegerProduct.h"
#include "import/quantized/IntegerRows.h"
#include "import/quantized/RoundedBytes.h"
#include "ir/Explain.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace {

LogicalResult multiplyIntegers(func::FuncOp main, bool dotsBytes) {
  SmallVector<ir::AtenOp> calls;
  main.walk([&](ir::AtenOp op) { calls.push_back(op); });
  for (ir::AtenOp op : calls) {
    ir::ScopeKeeper keeper(op);
    OpBuilder builder(op, &keeper);
    importer::LoweringBuilder lowering(builder, op);
    std::string why;
    Value product = importer::multiplyIntegers(lowering, op, dotsBytes, why);
    if (!product)
      product = importer::multiplyIntegerRows(lowering, op);
    if (!product)
      product = importer::roundToBytes(lowering, op);
    if (product) {
      op.getResult(0).replaceAllUsesWith(product);
      op.erase();
    } else if (!why.empty()) {
      ir::explainRefusal(op.getLoc(), "multiplied as integers", why);
    }
  }
  return success();
}

} // namespace

std::unique_ptr<Pass> createMultiplyIntegersPass(bool dotsBytes) {
  return ir::makePass<func::FuncOp, arith::ArithDialect, linalg::LinalgDialect,
                      math::MathDialect, tensor::TensorDialect>(
      "anabranch-multiply-integers",
      "multiplies the integers of quantised tensors",
      [dotsBytes](func::FuncOp main) {
        return multiplyIntegers(main, dotsBytes);
      });
}

} // namespace anabranch
