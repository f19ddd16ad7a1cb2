//===- DotProducts.cpp - a contraction of few rows ------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// With few rows, reading the right operand once is all the work there is, so it
// is not copied. Where depths are neighbours, each element of the result is a
// dot product along the depth: vectors of partial sums, added up at the end.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ContractionEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// Depths of the left operand from `depth` on, in a row counted from the tile's
/// first.
Value ContractionEmitter::leftWord(Value row, Value depth, Value end,
                                   bool whole) {
  if (!t.packLeft)
    return depthWords(c.left, lanes.addIndex(place.firstRow, row), Value(),
                      depth, end, whole);
  Value offset = lanes.addIndex(lanes.mulIndex(row, leftWords()), words(depth));
  return loadVector(leftMemory, offset);
}

/// Fetches the line of a column of the right operand, if there is one.
void ContractionEmitter::fetchColumn(Value column, Value depth) {
  Value last = lanes.subIndex(columnCount, lanes.index(1));
  LaneBuilder::MaskGuard guard(lanes, 1, Value());
  Value element =
      stored(c.right,
             point(Value(), Lanes::uniform(lanes.minIndex(column, last)),
                   Lanes::uniform(depth)))
          .value;
  if (auto cast = element.getDefiningOp<arith::BitcastOp>())
    element = cast.getIn();
  // The load is dead, and LLVM drops it.
  if (auto load = element.getDefiningOp<LLVM::LoadOp>())
    lanes.builder.create<LLVM::Prefetch>(lanes.loc, load.getAddr(), /*rw=*/0,
                                         /*hint=*/3, /*cache=*/1);
}

/// The partial sums of all rows and some columns after one more vector of
/// depths.
SmallVector<Value> ContractionEmitter::dotStep(Value column, Value depth,
                                               Value end, bool whole,
                                               ValueRange sums) {
  int64_t columns = t.dotColumns();
  SmallVector<ByteDots::Ready> factors;
  SmallVector<Value> next;
  Value last = lanes.subIndex(columnCount, lanes.index(1));
  for (int64_t j = 0; j < columns; ++j) {
    // Columns beyond the last repeat it; nobody reads their sums.
    Value at = lanes.minIndex(lanes.addIndex(column, lanes.index(j)), last);
    if (t.bytesAhead && whole && c.right.memory)
      fetchColumn(lanes.addIndex(column, lanes.index(2 * columns + j)), depth);
    Value right = depthWords(c.right, Value(), at, depth, end, whole);
    factors.push_back(t.multipliesBytes() ? t.bytes.right(lanes, right)
                                          : ByteDots::Ready{right});
  }
  for (int64_t i = 0; i < t.rows; ++i) {
    Value word = leftWord(lanes.index(i), depth, end, whole);
    ByteDots::Ready left =
        t.multipliesBytes() ? t.bytes.left(lanes, word) : ByteDots::Ready{word};
    for (int64_t j = 0; j < columns; ++j) {
      Value sum = sums[i * columns + j];
      if (t.multipliesBytes())
        next.push_back(t.bytes.add(lanes, sum, left, factors[j]));
      else if (t.pair > 1)
        next.push_back(dotPairs(lanes, sum, word, factors[j][0]));
      else
        next.push_back(multiplyAddVectors(lanes, word, factors[j][0], sum));
    }
  }
  return next;
}

Value ContractionEmitter::addLanes(Value vector) {
  if (isa<FloatType>(c.element))
    return lanes.builder.create<vector::ReductionOp>(
        lanes.loc, vector::CombiningKind::ADD, vector,
        arith::FastMathFlags::reassoc);
  return lanes.builder.create<vector::ReductionOp>(
      lanes.loc, vector::CombiningKind::ADD, vector);
}

Value ContractionEmitter::startAt(Value row) {
  return pointerTo(startMemory, row);
}

Value ContractionEmitter::loadStart(Value row) {
  return lanes.builder.create<LLVM::LoadOp>(lanes.loc, c.element, startAt(row),
                                            elementBytes(c.element));
}

/// What the sums of each row of the tile start at.
void ContractionEmitter::storeStarts() {
  int64_t width = t.lanes * t.pair;
  auto type = VectorType::get({t.lanes}, c.element);
  Value zero = lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(type)));
  auto known = c.knownSize(c.depth);
  bool whole = known && *known % width == 0;
  Value rows = lanes.subIndex(place.endRow, place.firstRow);
  lanes.loop(lanes.index(0), rows, 1, [&](Value row) {
    SmallVector<Value> excess =
        lanes.loop(lanes.index(0), depthCount, width, {zero},
                   [&](Value k, ValueRange carried) -> SmallVector<Value> {
                     Value left = leftWord(row, k, depthCount, whole);
                     return {t.bytes.addExcess(lanes, carried[0], left)};
                   });
    Value none =
        lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(c.element)));
    lanes.builder.create<LLVM::StoreOp>(
        lanes.loc, lanes.make<arith::SubIOp>(none, addLanes(excess[0])),
        startAt(row), elementBytes(c.element));
  });
}

void ContractionEmitter::multiplyRows() {
  int64_t columns = t.dotColumns(), width = t.lanes * t.pair;
  auto type = VectorType::get({t.lanes}, c.element);
  Value zero = lanes.constant(cast<TypedAttr>(lanes.builder.getZeroAttr(type)));
  SmallVector<Value> zeros(t.rows * columns, zero);
  Value rest = lanes.remIndex(depthCount, lanes.index(width));
  Value wholeEnd = lanes.subIndex(depthCount, rest);
  auto known = c.knownSize(c.depth);
  bool isWhole = known && *known % width == 0;
  lanes.loop(lanes.index(0), lanes.index(t.columns()), columns, [&](Value at) {
    // The last group overlaps the one before it.
    Value group = lanes.minIndex(at, lanes.index(t.columns() - columns));
    Value column = lanes.addIndex(place.firstColumn, group);
    SmallVector<Value> sums = lanes.loop(
        lanes.index(0), wholeEnd, width, zeros,
        [&](Value k, ValueRange carried) {
          return dotStep(column, k, depthCount, /*whole=*/true, carried);
        });
    if (!isWhole) {
      Value hasRest = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, rest,
                                                lanes.index(0));
      SmallVector<Type> types(sums.size(), type);
      SmallVector<Value> before = sums;
      sums = lanes.ifElse(
          hasRest, types,
          [&] { return dotStep(column, wholeEnd, depthCount, false, before); },
          [&] { return before; });
    }
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value total = addLanes(sum);
      if (t.needsStarts())
        total = lanes.make<arith::AddIOp>(total,
                                          loadStart(lanes.index(i / columns)));
      int64_t offset = i / columns * t.columns() + i % columns;
      lanes.builder.create<LLVM::StoreOp>(
          lanes.loc, total,
          pointerTo(sumMemory, lanes.addIndex(group, lanes.index(offset))));
    }
  });
  emitEpilogue(place.firstRow, sumMemory);
}

} // namespace codegen
} // namespace anabranch
