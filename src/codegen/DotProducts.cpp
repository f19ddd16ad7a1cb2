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

#include "codegen/ContractionEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// Depths of the left operand from `depth` on.
Value ContractionEmitter::leftWord(int64_t row, Value depth, Value end,
                                   bool whole) {
  Value at = lanes.index(row);
  if (!t.packLeft)
    return depthWords(c.left, lanes.addIndex(place.firstRow, at), Value(),
                      depth, end, whole);
  Value offset = lanes.addIndex(lanes.mulIndex(at, leftWords()), words(depth));
  return loadVector(leftMemory, offset);
}

/// The partial sums of all rows and some columns after one more vector of
/// depths.
SmallVector<Value> ContractionEmitter::dotStep(Value column, Value depth,
                                               Value end, bool whole,
                                               ValueRange sums) {
  int64_t columns = t.dotColumns();
  SmallVector<Value> factors, next;
  Value last = lanes.subIndex(columnCount, lanes.index(1));
  for (int64_t j = 0; j < columns; ++j) {
    // Columns beyond the last repeat it; nobody reads their sums.
    Value at = lanes.minIndex(lanes.addIndex(column, lanes.index(j)), last);
    factors.push_back(depthWords(c.right, Value(), at, depth, end, whole));
  }
  for (int64_t i = 0; i < t.rows; ++i) {
    Value left = leftWord(i, depth, end, whole);
    for (int64_t j = 0; j < columns; ++j) {
      Value sum = sums[i * columns + j];
      next.push_back(
          t.pair > 1 ? dotPairs(lanes, sum, left, factors[j])
                     : Value(lanes.make<vector::FMAOp>(left, factors[j], sum)));
    }
  }
  return next;
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
      Value total = lanes.builder.create<vector::ReductionOp>(
          lanes.loc, vector::CombiningKind::ADD, sum,
          arith::FastMathFlags::reassoc);
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
