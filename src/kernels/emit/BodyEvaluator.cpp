//===- BodyEvaluator.cpp - operations of a body on lanes ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/BodyEvaluator.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

BodyEvaluator::BodyEvaluator(ElementSource &elements, ArrayRef<Lanes> point,
                             Value status)
    : elements(elements), function(elements.function), lanes(elements.lanes),
      point(point), status(status) {}

SmallVector<Lanes> BodyEvaluator::run(Block &block, ArrayRef<Lanes> arguments) {
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    values[argument] = value;
  for (Operation &op : block.without_terminator())
    evaluate(op);
  SmallVector<Lanes> results;
  for (Value operand : block.getTerminator()->getOperands())
    results.push_back(lanesOf(operand));
  return results;
}

Lanes BodyEvaluator::runForLast(Block &block, ArrayRef<Lanes> arguments) {
  for (auto [argument, value] : llvm::zip(block.getArguments(), arguments))
    values[argument] = value;
  Value last = block.getTerminator()->getOperands().back();
  llvm::SmallDenseSet<Value, 16> needed{last};
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (llvm::any_of(op.getResults(),
                     [&](Value result) { return needed.contains(result); }))
      needed.insert(op.operand_begin(), op.operand_end());
  for (Operation &op : block.without_terminator())
    if (llvm::any_of(op.getResults(),
                     [&](Value result) { return needed.contains(result); }))
      evaluate(op);
  return lanesOf(last);
}

Lanes BodyEvaluator::lanesOf(Value operand) {
  auto found = values.find(operand);
  return found != values.end() ? found->second : elements.scalar(operand);
}

void BodyEvaluator::evaluate(Operation &op) {
  llvm::SaveAndRestore<Location> where(lanes.loc, op.getLoc());
  if (auto extract = dyn_cast<tensor::ExtractOp>(op)) {
    SmallVector<Lanes> index;
    for (Value operand : extract.getIndices())
      index.push_back(lanesOf(operand));
    values[extract.getResult()] = elements.evaluate(extract.getTensor(), index);
    return;
  }
  if (auto dim = dyn_cast<tensor::DimOp>(op)) {
    if (auto number = dim.getConstantIndex()) {
      values[dim.getResult()] =
          Lanes::uniform(function.dim(dim.getSource(), *number));
      return;
    }
  }
  if (auto indexOp = dyn_cast<linalg::IndexOp>(op)) {
    values[indexOp.getResult()] = point[indexOp.getDim()];
    return;
  }
  SmallVector<Lanes> operands;
  for (Value operand : op.getOperands())
    operands.push_back(lanesOf(operand));
  if (isa<ir::CheckOp>(op))
    return check(op, operands[0]);
  if (op.getNumResults() != 1 || op.getNumRegions() != 0 ||
      !isMemoryEffectFree(&op)) {
    function.fail(op.getLoc(), "operation " + op.getName().getStringRef() +
                                   " can't stand in a body");
    for (Value result : op.getResults())
      values[result] = elements.zero(result.getType());
    return;
  }
  if (auto simple = indexArithmetic(op, operands))
    values[op.getResult(0)] = *simple;
  else
    values[op.getResult(0)] = elementwise(op, std::move(operands));
}

/// Computes with linear indices where the result is linear again.
std::optional<Lanes> BodyEvaluator::indexArithmetic(Operation &op,
                                                    ArrayRef<Lanes> operands) {
  bool anyLinear = llvm::any_of(
      operands, [](const Lanes &operand) { return operand.isLinear(); });
  bool anyVarying = llvm::any_of(
      operands, [](const Lanes &operand) { return operand.isVarying(); });
  if (!anyLinear || anyVarying)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return lanes.add(operands[0], operands[1]);
  if (isa<arith::SubIOp>(op))
    return lanes.sub(operands[0], operands[1]);
  if (isa<arith::MulIOp>(op))
    return lanes.mul(operands[0], operands[1]);
  if (isa<arith::IndexCastOp>(op)) {
    Lanes linear = operands[0];
    linear.value =
        lanes.make<arith::IndexCastOp>(op.getResult(0).getType(), linear.value);
    return linear;
  }
  return std::nullopt;
}

Lanes BodyEvaluator::elementwise(Operation &op, SmallVector<Lanes> operands) {
  bool uniform = llvm::all_of(
      operands, [](const Lanes &operand) { return operand.isUniform(); });
  Type element = op.getResult(0).getType();
  if (!uniform && !OpTrait::hasElementwiseMappableTraits(&op)) {
    function.fail(op.getLoc(), "operation " + op.getName().getStringRef() +
                                   " has no vector form");
    return elements.zero(element);
  }
  if (isa<arith::SelectOp>(op))
    return lanes.select(operands[0], operands[1], operands[2]);
  bool divides =
      isa<arith::DivSIOp, arith::DivUIOp, arith::RemSIOp, arith::RemUIOp,
          arith::FloorDivSIOp, arith::CeilDivSIOp, arith::CeilDivUIOp>(op);
  // An inactive lane holds zeros, and an integer division by zero traps.
  if (divides && lanes.mask && !operands[1].isUniform()) {
    Value one = lanes.constant(
        cast<TypedAttr>(lanes.builder.getIntegerAttr(element, 1)));
    operands[1] = lanes.select(Lanes::varying(lanes.mask), operands[1],
                               Lanes::uniform(one));
  }
  SmallVector<Value> inputs;
  for (const Lanes &operand : operands)
    inputs.push_back(uniform ? operand.value : lanes.vector(operand));
  if (isa<arith::ExtFOp>(op) && laneType(inputs[0]).isBF16() && element.isF32())
    return lanes.wrap(extendBF16(lanes, inputs[0]));
  if (isa<arith::ExtFOp>(op) && laneType(inputs[0]).isF16() && element.isF32())
    return lanes.wrap(extendF16(lanes, inputs[0]));
  if (isa<arith::TruncFOp>(op) && laneType(inputs[0]).isF32() &&
      element.isBF16())
    return lanes.wrap(truncateToBF16(lanes, inputs[0]));

  if (isa<arith::MaximumFOp, arith::MinimumFOp>(op))
    return lanes.wrap(
        lanes.extremum(isa<arith::MaximumFOp>(op), inputs[0], inputs[1]));

  OperationState state(lanes.loc, op.getName(), inputs,
                       uniform ? element : lanes.vectorType(element),
                       op.getAttrs());
  Operation *made = lanes.builder.create(state);
  SmallVector<Value, 1> folded;
  if (succeeded(lanes.builder.tryFold(made, folded)) && !folded.empty()) {
    made->erase();
    return lanes.wrap(lanes.share(folded[0], /*isNew=*/false));
  }
  return lanes.wrap(lanes.share(made->getResult(0)));
}

void BodyEvaluator::check(Operation &op, Lanes condition) {
  // A condition that is equal in all lanes is checked once, outside of the
  // loops that share its value.
  bool isNew = !condition.isUniform() || lanes.maybeEmpty;
  if (!isNew)
    elements.remember(condition.value, {}, [&] {
      isNew = true;
      return SmallVector<Lanes>{condition};
    });
  if (!isNew)
    return;
  auto failing = cast<ir::CheckOp>(op);
  OpBuilder &b = lanes.builder;
  Value yes = lanes.constant(b.getBoolAttr(true));
  Value bad;
  if (condition.isUniform() && !lanes.maybeEmpty) {
    bad = lanes.make<arith::XOrIOp>(condition.value, yes);
  } else {
    Value good = lanes.vector(condition);
    Value wrong =
        lanes.make<arith::XOrIOp>(good, lanes.vector(Lanes::uniform(yes)));
    if (lanes.mask)
      wrong = lanes.make<arith::AndIOp>(wrong, lanes.mask);
    bad = lanes.make<vector::ReductionOp>(vector::CombiningKind::OR, wrong);
  }
  lanes.ifThen(bad, [&] {
    b.create<LLVM::StoreOp>(lanes.loc, lanes.constant(failing.getStatusAttr()),
                            status);
  });
}

} // namespace kernels
} // namespace anabranch
