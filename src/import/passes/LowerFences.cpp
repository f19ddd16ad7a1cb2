//===- LowerFences.cpp - waits and records become fences ------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: anabranch.aten "anabranch::wait"(%a, %d) {dependency = ...}
// After:  anabranch.fence after(%d : ...)
//
// | call        | fence                                        |
// |-------------|----------------------------------------------|
// | wait        | after(dependency)                            |
// | pass        | passes(self): its readers come after it      |
// | record      | passes(an empty tensor), the event           |
// | wait_event  | after(event)                                 |
// | wait_tag    | awaits what another graph has recorded       |

#include "import/passes/Passes.h"
#include "ir/Anabranch.h"
#include "ir/PassBase.h"
#include "ir/Scope.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace {

/// The operands of a fence.
struct FenceOperands {
  SmallVector<Value> passes, after;
  StringAttr awaits, records;
};

/// The operands of a call's fence. None if the call orders nothing; failure if
/// its arguments are wrong.
FailureOr<std::optional<FenceOperands>> fenceOperandsOf(OpBuilder &builder,
                                                        ir::AtenOp op) {
  StringRef name = op.getCallee();
  if (!name.consume_front("anabranch::"))
    return std::optional<FenceOperands>();
  FenceOperands operands;
  auto add = [&](StringRef argument, SmallVectorImpl<Value> &to) {
    Value value = op.getOperandArg(argument);
    if (!value || !isa<RankedTensorType>(value.getType()))
      return failure();
    to.push_back(value);
    return success();
  };
  LogicalResult valid = success();
  if (name == "wait") {
    valid = add("dependency", operands.after);
  } else if (name == "pass") {
    valid = add("self", operands.passes);
  } else if (name == "wait_event") {
    valid = add("event", operands.after);
  } else if (name == "wait_tag") {
    auto tag = op.getStringArg("tag");
    valid = success(tag.has_value());
    if (tag)
      operands.awaits = builder.getStringAttr(*tag);
  } else if (name == "record") {
    if (auto tag = op.getStringArg("tag"))
      operands.records = builder.getStringAttr(*tag);
    operands.passes.push_back(builder.create<tensor::EmptyOp>(
        op.getLoc(), ArrayRef<int64_t>{0}, builder.getF32Type()));
  } else {
    return std::optional<FenceOperands>();
  }
  bool fits = succeeded(valid) && op.getNumResults() == operands.passes.size();
  for (auto [value, result] : llvm::zip(operands.passes, op.getResults()))
    fits &= value.getType() == result.getType();
  if (!fits)
    return op.emitOpError("does not fit \"") << op.getCallee() << "\"";
  return std::optional<FenceOperands>(operands);
}

LogicalResult lower(ir::AtenOp op) {
  OpBuilder builder(op);
  FailureOr<std::optional<FenceOperands>> operands =
      fenceOperandsOf(builder, op);
  if (failed(operands) || !*operands)
    return operands;
  auto fence = builder.create<ir::FenceOp>(
      op.getLoc(), TypeRange(ValueRange((*operands)->passes)),
      (*operands)->passes, (*operands)->after, (*operands)->awaits,
      (*operands)->records);
  ir::setScope(fence, ir::scopeOf(op));
  op.replaceAllUsesWith(fence.getResults());
  op.erase();
  return success();
}

LogicalResult lowerFences(func::FuncOp main) {
  SmallVector<ir::AtenOp> calls(main.getOps<ir::AtenOp>());
  for (ir::AtenOp call : calls)
    if (failed(lower(call)))
      return failure();
  return success();
}

} // namespace

std::unique_ptr<Pass> createLowerFencesPass() {
  return ir::makePass<func::FuncOp, ir::AnabranchDialect,
                      tensor::TensorDialect>(
      "anabranch-lower-fences", "waits and records of streams to fences",
      lowerFences);
}

} // namespace anabranch
