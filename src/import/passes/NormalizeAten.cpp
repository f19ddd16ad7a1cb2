//===- NormalizeAten.cpp - removes calls that do nothing ------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: %b = anabranch.aten "clone"(%a) ...; use %b
// After:  use %a
//
// At this level tensors are values: a copy of a value is the value. Which
// buffers are shared with the caller is decided by the results' attributes.

#include "import/lowering/Lowering.h"
#include "import/passes/KeepDistinct.h"
#include "import/passes/Passes.h"
#include "ir/PassBase.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace anabranch {
namespace {

/// The argument that a call returns unchanged; null if there is none.
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

/// The operand of `x + 0`, `x - 0`, `x * 1`, `x / 1` with a literal, of an
/// equal dtype. Adding zero changes -0.0 to 0.0, so that stays for floats.
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

/// Whether PyTorch's call would return the memory of an argument of @main.
bool isOfArgument(Value value) {
  while (auto op = value.getDefiningOp<ir::AtenOp>()) {
    if (op.getCallee() != "alias" && op.getCallee() != "detach")
      return false;
    value = op.getOperandArg("self");
  }
  return isa_and_nonnull<BlockArgument>(value);
}

/// Marks the operands of each call that another call has made and that may fold
/// to an argument with strides (`x.contiguous()`, `x * 1`). PyTorch does not
/// get the argument there: some operators read an expanded or strided tensor
/// wrongly, so models make it contiguous first.
void noteMadeOperands(func::FuncOp main) {
  llvm::SmallDenseSet<Type> strided;
  for (BlockArgument argument : main.getArguments())
    if (main.getArgAttr(argument.getArgNumber(), "anabranch.strides"))
      strided.insert(argument.getType());
  if (strided.empty())
    return;
  main.walk([&](ir::AtenOp op) {
    if (op->hasAttr("anabranch.made"))
      return; // the pass runs again, after arguments have folded
    SmallVector<int64_t> made;
    for (auto [i, operand] : llvm::enumerate(op.getInputs()))
      if (strided.contains(operand.getType()) && !isOfArgument(operand))
        made.push_back(i);
    if (!made.empty())
      op->setAttr("anabranch.made",
                  DenseI64ArrayAttr::get(op.getContext(), made));
  });
}

LogicalResult normalizeAten(func::FuncOp main) {
  noteMadeOperands(main);
  Operation *end = main.getBody().back().getTerminator();
  SmallVector<Value> before(end->getOperands());
  main.walk([](ir::AtenOp op) {
    Value value = forwarded(op);
    if (!value)
      value = neutral(op);
    if (value)
      op.getResult(0).replaceAllUsesWith(value);
  });
  IRRewriter rewriter(main.getContext());
  DominanceInfo dominance(main);
  eliminateCommonSubExpressions(rewriter, dominance, main);
  importer::keepDistinct(end, before);
  SmallVector<Operation *> ops;
  main.walk([&](ir::AtenOp op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
  return success();
}

} // namespace

std::unique_ptr<Pass> createNormalizeAtenPass() {
  return ir::makePass<func::FuncOp>(
      "anabranch-normalize-aten",
      "removes ATen calls that do nothing, twice, or for nobody",
      normalizeAten);
}

} // namespace anabranch
