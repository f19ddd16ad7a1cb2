//===- FoldBatchNorm.cpp - batch norm into frozen weights -----------------===//
// SPDX-License-Identifier: Apache-2.0
//
//   %c = aten "convolution"(%x, %w, %b)        %s  = rsqrt(%var + eps) * %gamma
//   %r = aten "batch_norm"(%c, %gamma,    ->   %w1 = %w * %s
//                          %beta, %mean,       %b1 = (%b - %mean) * %s + %beta
//                          %var)               %r  = aten "convolution"(%x,
//                                                        %w1, %b1)
//
// Everything but %x is steady, so that `initialize` makes %w1 and %b1.
// Weights of two bytes stay as they are: the product would be rounded. Their
// convolution's sums are scaled before they are rounded,
//
//   %c = contraction(%x, %w) in f32
//   %r = generic {round(%c * %s + %b1)}

#include "import/lowering/Convolution.h"
#include "import/lowering/Formula.h"
#include "import/lowering/Lowering.h"
#include "import/passes/Passes.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {
namespace {

/// The arguments of both calls from which the folded weights are made.
struct Folding {
  ir::AtenOp norm, product;
  Operand weight, bias; ///< of the product; `bias` may be empty
  Operand scale, shift, mean, variance;
  double eps;
  unsigned
      filters; ///< the weight's dimension that becomes the result's channels

  int64_t channels() const { return weight.size(filters); }
  /// Whether the sums are scaled instead of the weight.
  bool scalesSums() const { return weight.dtype.width() == 16; }
};

/// The weight's dimension that becomes the channels of the result, the result's
/// second dimension. None if no single dimension does.
std::optional<unsigned> filtersOf(ir::AtenOp op) {
  if (op.getCallee() == "convolution") {
    std::optional<bool> isTransposed = op.getBoolArg("transposed");
    if (isTransposed == false)
      return 0;
    // A transposed weight has its groups in both of its first dimensions.
    return isTransposed && op.getIntArg("groups") == 1
               ? std::optional<unsigned>(1)
               : std::nullopt;
  }
  if (op.getCallee() == "linear" &&
      cast<RankedTensorType>(op.getResult(0).getType()).getRank() == 2)
    return 0;
  return std::nullopt;
}

std::optional<Folding> match(ir::AtenOp norm) {
  if (norm.getCallee() != "_native_batch_norm_legit_no_training" ||
      !norm.getResult(1).use_empty() || !norm.getResult(2).use_empty())
    return std::nullopt;
  Value input = norm.getOperandArg("input");
  auto product = input ? input.getDefiningOp<ir::AtenOp>() : ir::AtenOp();
  auto eps = norm.getFloatArg("eps");
  std::optional<unsigned> filters;
  if (product)
    filters = filtersOf(product);
  if (!filters || !input.hasOneUse() || !eps ||
      product.getOperandArg("input") == product.getOperandArg("weight") ||
      input.getType() != norm.getResult(0).getType())
    return std::nullopt;
  OpBuilder builder(norm);
  LoweringBuilder of(builder, product), by(builder, norm);
  Folding f{norm,
            product,
            of.operand("weight"),
            of.operand("bias"),
            by.operand("weight"),
            by.operand("bias"),
            by.operand("running_mean"),
            by.operand("running_var"),
            *eps,
            *filters};
  for (const Operand &needed : {f.weight, f.mean, f.variance})
    if (!needed.isSteady())
      return std::nullopt;
  Type type = f.weight.type().getElementType();
  if (!isa<FloatType>(type) || !f.weight.type().hasStaticShape())
    return std::nullopt;
  if (f.scalesSums() && (product.getCallee() != "convolution" ||
                         *filters != 0 || product.getOrdered()))
    return std::nullopt;
  for (const Operand &any : {f.bias, f.scale, f.shift, f.mean, f.variance})
    if (any &&
        (!any.isSteady() || any.type().getShape() != ArrayRef(f.channels()) ||
         (!f.scalesSums() && any.type().getElementType() != type)))
      return std::nullopt;
  return f;
}

/// Replaces an argument of a call by this value.
void setArgument(ir::AtenOp op, StringRef name, Value value) {
  if (auto old = dyn_cast<ir::OperandRefAttr>(op.getArg(name)))
    return op.getInputsMutable()[old.getIndex()].set(value);
  auto reference =
      ir::OperandRefAttr::get(op.getContext(), op.getInputs().size());
  op.getInputsMutable().append(value);
  NamedAttrList args(op.getArgs());
  args.set(name, reference);
  op.setArgsAttr(args.getDictionary(op.getContext()));
}

/// By what the batch norm multiplies each channel, and what it adds then.
struct Steps {
  Operand factor, bias;
};

Steps stepsOf(const Folding &f, LoweringBuilder &b) {
  DType dtype = f.weight.dtype.math();
  Sizes filters = {b.sizesOf(f.weight.value)[f.filters]};
  SmallVector<Operand> terms = {f.variance};
  if (f.scale)
    terms.push_back(f.scale);
  Operand factor =
      b.tensor(b.elementwise(terms, dtype, dtype, filters,
                             [&](Body &, ArrayRef<Num> x) {
                               Num inverse = s::rsqrt(x[0] + f.eps);
                               return x.size() > 1 ? inverse * x[1] : inverse;
                             }),
               dtype);
  terms = {f.mean, factor};
  if (f.bias)
    terms.push_back(f.bias);
  if (f.shift)
    terms.push_back(f.shift);
  Value bias =
      b.elementwise(terms, dtype, dtype, filters, [&](Body &, ArrayRef<Num> x) {
        Num sum = f.bias ? (x[2] - x[0]) * x[1] : -(x[0] * x[1]);
        return f.shift ? sum + x.back() : sum;
      });
  return {factor, b.tensor(bias, dtype)};
}

void scaleWeight(Folding &f) {
  OpBuilder builder(f.product);
  LoweringBuilder b(builder, f.norm.getLoc());
  DType dtype = f.weight.dtype;
  auto [factor, bias] = stepsOf(f, b);
  factor.positions = {f.filters};
  Value weight =
      b.elementwise({f.weight, factor}, dtype, dtype, b.sizesOf(f.weight.value),
                    [](Body &, ArrayRef<Num> x) { return x[0] * x[1]; });
  setArgument(f.product, "weight", weight);
  setArgument(f.product, "bias", bias.value);
  f.norm.getResult(0).replaceAllUsesWith(f.product.getResult(0));
  f.norm.erase();
}

void scaleSums(Folding &f) {
  ir::ScopeKeeper keeper(f.product);
  OpBuilder builder(f.product, &keeper);
  LoweringBuilder b(builder, f.product);
  FailureOr<Convolution> conv = convolutionOf(f.product, b);
  if (failed(conv))
    return;
  DType dtype = f.weight.dtype, wide = dtype.math();
  auto [factor, bias] = stepsOf(f, b);
  factor.positions = bias.positions = {1};
  conv->bias = {};
  conv->result = wide;
  Operand sums = b.tensor(convolve(b, *conv), wide);
  Value result = b.elementwise(
      {sums, factor, bias}, wide, dtype, conv->sizes,
      [](Body &, ArrayRef<Num> x) { return s::multiplyAdd(x[0], x[1], x[2]); });
  f.norm.getResult(0).replaceAllUsesWith(result);
  f.norm.erase();
  f.product.erase();
}

LogicalResult foldBatchNorm(func::FuncOp main) {
  SmallVector<ir::AtenOp> norms;
  main.walk([&](ir::AtenOp op) { norms.push_back(op); });
  for (ir::AtenOp op : norms)
    if (std::optional<Folding> found = match(op))
      found->scalesSums() ? scaleSums(*found) : scaleWeight(*found);
  return success();
}

} // namespace
} // namespace importer

std::unique_ptr<Pass> createFoldBatchNormPass() {
  return ir::makePass<func::FuncOp, arith::ArithDialect, linalg::LinalgDialect,
                      math::MathDialect, tensor::TensorDialect>(
      "anabranch-fold-batch-norm",
      "multiplies frozen weights by the batch norm after them",
      importer::foldBatchNorm);
}

} // namespace anabranch
