//===- NormalizeAten.cpp - removes calls that do nothing ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Before: %b = anabranch.aten "clone"(%a) ...; use %b
// After:  use %a
//
// At this level tensors are values: a copy of a value is the value. Which
// buffers are shared with the caller is decided by the results' attributes.
//
//===----------------------------------------------------------------------===//

#include "import/Lowering.h"
#include "import/Passes.h"

#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace anabranch {
namespace {

/// The argument that a call hands on unchanged; null if there is none.
Value forwarded(ir::AtenOp op) {
  static const llvm::StringSet<> copies = {"alias",
                                           "clone",
                                           "detach",
                                           "lift_fresh",
                                           "_to_copy",
                                           "lift_fresh_copy",
                                           "contiguous",
                                           "alias_copy",
                                           "detach_copy",
                                           "_conj",
                                           "prims::convert_element_type"};
  if (op.getOrdered() || op.getNumResults() != 1 ||
      !copies.contains(op.getCallee()))
    return Value();
  Value self = op.getOperandArg("self");
  if (!self)
    self = op.getOperandArg("a");
  if (!self || self.getType() != op.getResult(0).getType() ||
      op.isUnsigned(self) != op.isUnsignedResult(0))
    return Value();
  return self;
}

/// `x + 0`, `x - 0`, `x * 1`, `x / 1` with a literal, of an equal dtype. Adding
/// zero changes -0.0 only, to 0.0, so it stays for floats.
Value neutral(ir::AtenOp op) {
  bool product =
      op.getCallee() == "mul.Tensor" || op.getCallee() == "mul.Scalar" ||
      op.getCallee() == "div.Tensor" || op.getCallee() == "div.Scalar";
  bool difference =
      op.getCallee() == "sub.Tensor" || op.getCallee() == "sub.Scalar";
  if (!product && !difference)
    return Value();
  Value self = op.getOperandArg("self");
  auto other = op.getFloatArg("other");
  if (!self || !other || *other != (product ? 1.0 : 0.0) ||
      self.getType() != op.getResult(0).getType() ||
      op.isUnsigned(self) != op.isUnsignedResult(0))
    return Value();
  return self;
}

/// A call that copies the tensor.
Value cloneOf(OpBuilder &builder, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<Value> dims;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.isDynamicDim(dim))
      dims.push_back(getValueOrCreateConstantIndexOp(
          builder, value.getLoc(),
          importer::sizeOf(builder, value.getLoc(), value, dim)));
  auto args = builder.getDictionaryAttr(
      {builder.getNamedAttr("self",
                            ir::OperandRefAttr::get(builder.getContext(), 0)),
       builder.getNamedAttr("memory_format", builder.getUnitAttr())});
  return builder
      .create<ir::AtenOp>(value.getLoc(), TypeRange(type),
                          builder.getStringAttr("clone"), ValueRange(value),
                          dims, args, builder.getDenseI64ArrayAttr({}),
                          builder.getDenseI64ArrayAttr({}), UnitAttr())
      .getResult(0);
}

/// Two results that were different values must not become one, nor an
/// argument: the caller would see one buffer where PyTorch gives two.
/// `before` holds the results at the start; values that are gone are only
/// compared by address.
void keepDistinct(Operation *end, ArrayRef<Value> before) {
  OpBuilder builder(end);
  for (OpOperand &operand : end->getOpOperands()) {
    unsigned i = operand.getOperandNumber();
    if (!isa<RankedTensorType>(operand.get().getType()))
      continue;
    bool merged =
        isa<BlockArgument>(operand.get()) && operand.get() != before[i];
    for (unsigned j = 0; j < i && !merged; ++j)
      merged = end->getOperand(j) == operand.get() && before[j] != before[i];
    if (merged)
      operand.set(cloneOf(builder, operand.get()));
  }
}

struct NormalizeAtenPass
    : PassWrapper<NormalizeAtenPass, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(NormalizeAtenPass)

  StringRef getArgument() const final { return "anabranch-normalize-aten"; }
  StringRef getDescription() const final {
    return "removes ATen calls that do nothing, twice, or for nobody";
  }

  void runOnOperation() override {
    Operation *end = getOperation().getBody().back().getTerminator();
    SmallVector<Value> before(end->getOperands());
    getOperation().walk([](ir::AtenOp op) {
      Value value = forwarded(op);
      if (!value)
        value = neutral(op);
      if (value)
        op.getResult(0).replaceAllUsesWith(value);
    });
    IRRewriter rewriter(&getContext());
    DominanceInfo dominance(getOperation());
    eliminateCommonSubExpressions(rewriter, dominance, getOperation());
    keepDistinct(end, before);
    SmallVector<Operation *> ops;
    getOperation().walk([&](ir::AtenOp op) { ops.push_back(op); });
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }
};

} // namespace

std::unique_ptr<Pass> createNormalizeAtenPass() {
  return std::make_unique<NormalizeAtenPass>();
}

} // namespace anabranch
