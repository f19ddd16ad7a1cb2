//===- LowerAten.cpp - ATen calls to linalg by the operator table ---------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: %r = anabranch.aten "relu"(%x) {self = #anabranch.operand<0>}
// After:  %r = linalg.generic ... { arith.maximumf }
// or, without a lowering,
//         %r = anabranch.aten "relu"(%x) {...} {anabranch.refusal = "why"}

#include "import/lowering/OpTable.h"
#include "import/passes/KeepDistinct.h"
#include "import/passes/Passes.h"
#include "ir/Explain.h"
#include "ir/PassBase.h"
#include "ir/ResultDims.h"
#include "ir/Scope.h"
#include "ir/WritingCall.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// Remembers the operations of a lowering, to erase them if it refuses.
struct Recorder : ir::ScopeKeeper {
  using ScopeKeeper::ScopeKeeper;
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override {
    ScopeKeeper::notifyOperationInserted(op, previous);
    made.push_back(op);
  }
  SmallVector<Operation *> made;
};

} // namespace

/// Why the table does not accept these dtypes; empty if it does.
static std::string dtypeRefusal(ir::AtenOp op, const OpRow &row) {
  auto check = [&](Type type, bool isUnsigned) -> std::string {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return "";
    DType dtype{tensor.getElementType(), isUnsigned};
    if (setOf(dtype) & row.dtypes)
      return "";
    return ("no lowering for dtype " + nameOf(dtype)).str();
  };
  for (Value input : op.getInputs())
    if (auto why = check(input.getType(), op.isUnsigned(input)); !why.empty())
      return why;
  for (OpResult result : op.getResults())
    if (auto why = check(result.getType(),
                         op.isUnsignedResult(result.getResultNumber()));
        !why.empty())
      return why;
  return "";
}

/// Checks that a lowering's results fit the call. If not, it is a bug of ours.
static LogicalResult verifyLowered(ir::AtenOp op, ArrayRef<Value> values) {
  if (values.size() != op.getNumResults())
    return op.emitOpError("lowering of \"")
           << op.getCallee() << "\" gave " << values.size() << " values";
  for (auto [result, value] : llvm::zip(op.getResults(), values)) {
    if (!value && !result.use_empty())
      return op.emitOpError("lowering of \"")
             << op.getCallee() << "\" left out a used result";
    if (value && value.getType() != result.getType())
      return op.emitOpError("lowering of \"")
             << op.getCallee() << "\" gave " << value.getType()
             << " instead of " << result.getType();
  }
  return success();
}

/// Asserts, by a cast, sizes that the call knows and the lowering does not,
/// such as a 1 that is the rest of a division.
static void refineTypes(ir::AtenOp op, OpBuilder &b,
                        MutableArrayRef<Value> values) {
  for (auto [result, value] : llvm::zip(op.getResults(), values))
    if (value && value.getType() != result.getType() &&
        tensor::CastOp::areCastCompatible(value.getType(), result.getType()))
      value = b.create<tensor::CastOp>(op.getLoc(), result.getType(), value);
}

/// Erases the operations in the block of the call. Those in their regions go
/// with them.
static void eraseMade(ArrayRef<Operation *> made, Block *block) {
  SmallVector<Operation *> outer;
  for (Operation *op : made)
    if (op->getBlock() == block)
      outer.push_back(op);
  for (Operation *op : llvm::reverse(outer))
    op->erase();
}

/// Lowers the call, or keeps it and explains why.
static LogicalResult lowerOrExplain(ir::AtenOp op) {
  auto explain = [&](const Twine &reason) {
    op->setAttr("anabranch.refusal", StringAttr::get(op.getContext(), reason));
    ir::explainRefusal(op.getLoc(), "lowered", op.getCallee() + ": " + reason);
    return success();
  };
  if (!ir::writtenOperands(op).empty())
    return explain("it writes its arguments");
  if (op->hasAttr(ir::runSizedAttr))
    return explain("the size of its result depends on data");
  // The runtime's operators have PyTorch's names. It runs what no kernel takes.
  StringRef name = op.getCallee();
  name.consume_front("runtime::");
  const OpRow *row = OpTable::get().lookup(name);
  if (!row)
    return explain("no lowering");
  if (std::string why = dtypeRefusal(op, *row); !why.empty())
    return explain(why);
  Recorder recorder(op);
  OpBuilder builder(op, &recorder);
  LoweringBuilder lowering(builder, op);
  Lowered values = row->lower(op, lowering);
  if (failed(values) || lowering.isImpossible()) {
    eraseMade(recorder.made, op->getBlock());
    return explain(lowering.refusal());
  }
  if (!lowering.readsAllReals()) {
    eraseMade(recorder.made, op->getBlock());
    return explain("a float that depends on sizes");
  }
  if (values->size() == op.getNumResults())
    refineTypes(op, builder, *values);
  if (failed(verifyLowered(op, *values)))
    return failure();
  for (auto [result, value] : llvm::zip(op.getResults(), *values))
    if (value)
      result.replaceAllUsesWith(value);
  op.erase();
  return success();
}

namespace {

LogicalResult lowerAll(ArrayRef<ir::AtenOp> calls) {
  for (ir::AtenOp op : calls)
    if (failed(lowerOrExplain(op)))
      return failure();
  return success();
}

LogicalResult lowerAten(func::FuncOp main) {
  Operation *end = main.getBody().back().getTerminator();
  SmallVector<Value> before(end->getOperands());
  SmallVector<ir::AtenOp> calls;
  main.walk([&](ir::AtenOp op) { calls.push_back(op); });
  if (failed(lowerAll(calls)))
    return failure();
  // A lowering may return its operand as result, as `cat` of one tensor does.
  return lowerAll(keepDistinct(end, before));
}

} // namespace
} // namespace importer

std::unique_ptr<Pass> createLowerAtenPass() {
  return ir::makePass<func::FuncOp, arith::ArithDialect, linalg::LinalgDialect,
                      math::MathDialect, tensor::TensorDialect>(
      "anabranch-lower-aten", "ATen calls to linalg by the operator table",
      importer::lowerAten);
}

} // namespace anabranch
