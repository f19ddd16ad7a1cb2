//===- MicroKernel.cpp - the innermost loop of a contraction --------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A function of its own, since its accumulators need every vector register:
//
//   NAME_block(left pointer of each row, left step, right pointer, right step,
//              sums, depth, continues)
//
// Steps are bytes from one depth to the next. The sums, [rows][columns], start
// at zero unless `continues` is set.
//
//===----------------------------------------------------------------------===//

#include "codegen/ContractionEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

bool ContractionEmitter::leftStepIsUnit() const {
  return t.packLeft || c.left.unitLoop == c.depth;
}

func::FuncOp ContractionEmitter::blockFunction() {
  if (block)
    return block;
  OpBuilder &b = lanes.builder;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(frame.source);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  SmallVector<Type> types(t.rows, pointer);
  types.append({b.getI64Type(), pointer, b.getI64Type(), pointer,
                b.getI64Type(), b.getI1Type()});
  block = b.create<func::FuncOp>(lanes.loc,
                                 (frame.source.getName() + "_block").str(),
                                 b.getFunctionType(types, {}));
  block.setPrivate();
  block->setAttr("llvm.linkage", LLVM::LinkageAttr::get(
                                     b.getContext(), LLVM::Linkage::Internal));
  // The sums overlap nothing that is read.
  block.setArgAttr(t.rows + 3, "llvm.noalias", b.getUnitAttr());
  b.setInsertionPointToStart(block.addEntryBlock());
  fillBlockFunction(block);
  return block;
}

void ContractionEmitter::fillBlockFunction(func::FuncOp function) {
  OpBuilder &b = lanes.builder;
  // A builder of its own: values of the tile function can't be used here.
  LaneBuilder inner(b, lanes.loc);
  auto type = VectorType::get({t.lanes}, c.element);
  int64_t bytes = elementBytes(c.element);
  auto argument = [&](unsigned i) { return function.getArgument(i); };
  Value leftStep = leftStepIsUnit() ? inner.i64(bytes) : argument(t.rows);
  Value right = argument(t.rows + 1), rightStep = argument(t.rows + 2);
  if (t.right != ContractionTiling::Right::InPlace)
    rightStep = inner.i64(t.columns() * bytes);
  Value sums = argument(t.rows + 3), depth = argument(t.rows + 4);
  auto move = [&](Value from, Value by) -> Value {
    return b.create<LLVM::GEPOp>(inner.loc, from.getType(), b.getI8Type(), from,
                                 ArrayRef<LLVM::GEPArg>{by});
  };
  auto vectorAt = [&](Value from, int64_t number) -> Value {
    return move(from, inner.i64(number * t.lanes * bytes));
  };

  int64_t count = t.rows * t.vectors;
  Value zero = inner.constant(cast<TypedAttr>(b.getZeroAttr(type)));
  SmallVector<Type> types(count, type);
  SmallVector<Value> initial = inner.ifElse(
      argument(t.rows + 5), types,
      [&] {
        SmallVector<Value> loaded;
        for (int64_t i = 0; i < count; ++i)
          loaded.push_back(b.create<LLVM::LoadOp>(inner.loc, type,
                                                  vectorAt(sums, i), bytes));
        return loaded;
      },
      [&] { return SmallVector<Value>(count, zero); });

  Value end = inner.make<arith::IndexCastOp>(b.getIndexType(), depth);
  SmallVector<Value> results = inner.loop(
      inner.index(0), end, 1, initial, [&](Value k, ValueRange carried) {
        Value step = inner.toI64(k);
        Value leftOffset = inner.make<arith::MulIOp>(step, leftStep);
        Value rightOffset = inner.make<arith::MulIOp>(step, rightStep);
        Value row = move(right, rightOffset);
        SmallVector<Value> vectors, sum;
        for (int64_t j = 0; j < t.vectors; ++j)
          vectors.push_back(
              b.create<LLVM::LoadOp>(inner.loc, type, vectorAt(row, j), bytes));
        for (int64_t i = 0; i < t.rows; ++i) {
          Value scalar = b.create<LLVM::LoadOp>(
              inner.loc, c.element, move(argument(i), leftOffset), bytes);
          Value factor = b.create<vector::BroadcastOp>(inner.loc, type, scalar);
          for (int64_t j = 0; j < t.vectors; ++j)
            sum.push_back(b.create<vector::FMAOp>(inner.loc, factor, vectors[j],
                                                  carried[i * t.vectors + j]));
        }
        return sum;
      });
  for (auto [i, value] : llvm::enumerate(results))
    b.create<LLVM::StoreOp>(inner.loc, value, vectorAt(sums, i), bytes);
  b.create<func::ReturnOp>(inner.loc);
}

/// Where an element was loaded from that is a plain load.
Value ContractionEmitter::addressOf(Lanes loaded) {
  if (auto load = loaded.value.getDefiningOp<LLVM::LoadOp>())
    return load.getAddr();
  frame.fail(lanes.loc, "operand of a contraction is no plain memory");
  return panelMemory;
}

/// The bytes from one address to another.
static Value distance(LaneBuilder &lanes, Value from, Value to) {
  Type i64 = lanes.builder.getI64Type();
  Value a = lanes.make<LLVM::PtrToIntOp>(i64, from);
  Value b = lanes.make<LLVM::PtrToIntOp>(i64, to);
  return lanes.make<arith::SubIOp>(b, a);
}

/// The address of a row at a depth, and the step along the depth.
std::pair<Value, Value> ContractionEmitter::leftInPlace(Value row,
                                                        Value firstDepth) {
  auto at = [&](Value depth) {
    return addressOf(
        element(c.left, point(row, Lanes(), Lanes::uniform(depth))));
  };
  Value first = at(firstDepth);
  if (leftStepIsUnit())
    return {first, lanes.i64(elementBytes(c.element))};
  return {first, distance(lanes, first,
                          at(lanes.addIndex(firstDepth, lanes.index(1))))};
}

std::pair<Value, Value> ContractionEmitter::rightInPlace(Value firstDepth) {
  auto at = [&](Value depth) {
    return addressOf(
        element(c.right, point(Value(), Lanes::uniform(place.firstColumn),
                               Lanes::uniform(depth))));
  };
  Value first = at(firstDepth);
  return {first, distance(lanes, first,
                          at(lanes.addIndex(firstDepth, lanes.index(1))))};
}

/// Adds the products of a block of rows and one panel to the sums.
void ContractionEmitter::multiplyBlock(Value row, Value sums, Value right,
                                       Value rightStep, Value firstDepth,
                                       Value depth) {
  // Rows beyond the last repeat it; nobody reads their sums.
  Value lastRow = lanes.subIndex(place.endRow, lanes.index(1));
  Value unit = lanes.i64(elementBytes(c.element));
  SmallVector<Value> arguments;
  Value leftStep = unit;
  for (int64_t i = 0; i < t.rows; ++i) {
    Value position = lanes.addIndex(row, lanes.index(i));
    if (!rowsAreWhole())
      position = lanes.minIndex(position, lastRow);
    if (t.packLeft) {
      Value at = lanes.subIndex(position, place.firstRow);
      at = lanes.addIndex(lanes.mulIndex(at, paddedDepth()), firstDepth);
      arguments.push_back(pointerTo(leftMemory, at));
      continue;
    }
    auto [pointer, step] = leftInPlace(position, firstDepth);
    arguments.push_back(pointer);
    leftStep = step;
  }
  Value continues = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne,
                                              firstDepth, lanes.index(0));
  arguments.append({leftStep, right, rightStep ? rightStep : unit, sums,
                    lanes.toI64(depth), continues});
  lanes.builder.create<func::CallOp>(lanes.loc, blockFunction(), arguments);
}

} // namespace codegen
} // namespace anabranch
