//===- QuantizedFunction.cpp - one function for a block of rows -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantized/QuantizedFunction.h"

#include "machine/processor/MemoryUnits.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

using machine::lineBytes;

static constexpr int64_t bytesAhead = 4096;

Value splat(LaneBuilder &lanes, Type type, int64_t number) {
  Type element = getElementTypeOrSelf(type);
  return lanes.constant(DenseElementsAttr::get(
      cast<ShapedType>(type), Attribute(IntegerAttr::get(element, number))));
}

func::FuncOp QuantizedFunction::create(OpBuilder &builder, Operation *where,
                                       StringRef name, bool wantsFetches) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(where);
  fetches = wantsFetches;
  Type pointer = LLVM::LLVMPointerType::get(builder.getContext());
  SmallVector<Type> types(Arguments, pointer);
  function = builder.create<func::FuncOp>(where->getLoc(), name,
                                          builder.getFunctionType(types, {}));
  function.setPrivate();
  function->setAttr(
      "llvm.linkage",
      LLVM::LinkageAttr::get(builder.getContext(), LLVM::Linkage::Internal));
  function.setArgAttr(Result, "llvm.noalias", builder.getUnitAttr());
  builder.setInsertionPointToStart(function.addEntryBlock());
  {
    // The function needs a builder of its own, since it cannot use values of
    // other functions.
    LaneBuilder lanes(builder, function.getLoc(), context.gemm.lanes.isa);
    fill(lanes);
  }
  builder.create<func::ReturnOp>(where->getLoc());
  return function;
}

std::pair<Value, Value> QuantizedFunction::stepsOf(LaneBuilder &lanes,
                                                   Value block) {
  int64_t perBlock = blocking.depth / context.weight.layout.stepDepths();
  int64_t steps = context.weight.layout.steps(context.weight.depths);
  Value first = lanes.mulIndex(block, lanes.index(perBlock));
  Value end = lanes.addIndex(first, lanes.index(perBlock));
  if (steps % perBlock != 0)
    end = lanes.minIndex(end, lanes.index(steps));
  return {first, end};
}

void QuantizedFunction::fetch(LaneBuilder &lanes, Value line) {
  for (int64_t at = 0; at < panelBytes; at += lineBytes)
    lanes.builder.create<LLVM::Prefetch>(
        lanes.loc,
        addBytes(lanes, function.getArgument(Packed),
                 lanes.addIndex(line, lanes.index(bytesAhead + at))),
        /*rw=*/0, /*hint=*/3, /*cache=*/1);
}

Value QuantizedFunction::load(LaneBuilder &lanes, Argument from, Value bytes,
                              Type type) {
  return lanes.builder.create<LLVM::LoadOp>(
      lanes.loc, type, addBytes(lanes, function.getArgument(from), bytes),
      /*alignment=*/1);
}

Value QuantizedFunction::compensationOf(LaneBuilder &lanes, Value block,
                                        int64_t row, int64_t digit) {
  Type i32 = lanes.builder.getI32Type();
  auto type = VectorType::get({blocking.lanes}, i32);
  if (!context.weight.layout.center)
    return splat(lanes, type, 0);
  Value at = lanes.addIndex(
      lanes.index((row * blocking.digits.count + digit) * context.blocks()),
      block);
  return lanes.make<vector::BroadcastOp>(
      type, load(lanes, Compensation, lanes.mulIndex(at, lanes.index(4)), i32));
}

QuantizedFunction::Parameters
QuantizedFunction::parameters(LaneBuilder &lanes, Value block, int64_t vector) {
  const QuantizedOperand &weight = context.weight;
  TypedMemory floats(lanes, lanes.builder.getF32Type(), blocking.lanes);
  Value group =
      lanes.divIndex(lanes.mulIndex(block, lanes.index(blocking.depth)),
                     lanes.index(weight.layout.group));
  Value at = lanes.addIndex(
      lanes.mulIndex(group, lanes.index(ir::QuantizedWeight::panelColumns)),
      lanes.index(vector * blocking.lanes));
  Parameters found;
  if (weight.scale)
    found.scale = floats.loadExtended(weight.scaleElement,
                                      function.getArgument(Scale), at);
  if (weight.offset)
    found.offset = floats.loadExtended(weight.offsetElement,
                                       function.getArgument(Offset), at);
  return found;
}

Value QuantizedFunction::addScaled(LaneBuilder &lanes, Value block, int64_t row,
                                   ArrayRef<Value> digits,
                                   const Parameters &parameters, Value result) {
  OpBuilder &b = lanes.builder;
  Type f32 = b.getF32Type();
  auto type = VectorType::get({blocking.lanes}, f32);
  auto ofRow = [&](Argument from) -> Value {
    Value at = lanes.addIndex(lanes.index(row * context.blocks()), block);
    return lanes.make<vector::BroadcastOp>(
        type, load(lanes, from, lanes.mulIndex(at, lanes.index(4)), f32));
  };
  Value base = lanes.constant(DenseElementsAttr::get(
      type, static_cast<float>(int64_t(1) << blocking.digits.bits)));
  Value total;
  for (Value digit : llvm::reverse(digits)) {
    Value part = lanes.make<arith::SIToFPOp>(type, digit);
    total =
        total
            ? b.create<vector::FMAOp>(lanes.loc, total, base, part).getResult()
            : part;
  }
  if (parameters.scale)
    total = lanes.make<arith::MulFOp>(total, parameters.scale);
  result = b.create<vector::FMAOp>(lanes.loc, total, ofRow(Scales), result);
  if (parameters.offset)
    result = b.create<vector::FMAOp>(lanes.loc, parameters.offset, ofRow(Sums),
                                     result);
  return result;
}

} // namespace kernels
} // namespace anabranch
