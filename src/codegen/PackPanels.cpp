//===- PackPanels.cpp - operands of a contraction into scratch ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/ContractionEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

// log2(n) rounds; each exchanges the off-diagonal blocks of pairs:
//   a b    a c
//   c d -> b d  with blocks of n/2, n/4, ..., 1 elements.
SmallVector<Value> transpose(LaneBuilder &lanes, ArrayRef<Value> vectors) {
  int64_t n = vectors.size();
  SmallVector<Value> rows(vectors);
  for (int64_t block = n / 2; block > 0; block /= 2) {
    SmallVector<int64_t> upper, lower;
    for (int64_t lane = 0; lane < n; ++lane) {
      upper.push_back(lane & block ? n + lane - block : lane);
      lower.push_back(lane & block ? n + lane : lane + block);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i & block)
        continue;
      Value a = rows[i], b = rows[i + block];
      rows[i] = lanes.make<vector::ShuffleOp>(a, b, upper);
      rows[i + block] = lanes.make<vector::ShuffleOp>(a, b, lower);
    }
  }
  return rows;
}

/// The lanes of a vector from `column` on that are columns; null if all are.
Value ContractionEmitter::columnMask(Value column) {
  auto columns = c.knownSize(c.column);
  if (columns && *columns % t.lanes == 0)
    return Value();
  LaneBuilder::Shape shape(lanes, t.lanes, Value());
  Value rest = lanes.subIndex(columnCount, column);
  return lanes.prefixMask(lanes.maxIndex(rest, lanes.index(0)));
}

Value ContractionEmitter::panelOffset(Value depth, Value firstDepth,
                                      int64_t vector) {
  Value row = lanes.subIndex(depth, firstDepth);
  return lanes.addIndex(lanes.mulIndex(row, lanes.index(t.columns())),
                        lanes.index(vector * t.lanes));
}

/// Lanes of the right operand along the columns at one depth.
Value ContractionEmitter::rightVector(Value depth, int64_t vector, Value mask) {
  LaneBuilder::Shape shape(lanes, t.lanes, mask, /*maybeEmpty=*/bool(mask));
  Value column =
      lanes.addIndex(place.firstColumn, lanes.index(vector * t.lanes));
  Lanes value =
      element(c.right, point(Value(), Lanes::linear(column, 1, t.lanes),
                             Lanes::uniform(depth)));
  return lanes.vector(value);
}

/// [row][depth], with the depth padded to whole vectors.
void ContractionEmitter::packLeft() {
  Value stride = paddedDepth();
  auto depth = c.knownSize(c.depth);
  bool whole = depth && *depth % t.lanes == 0;
  lanes.loop(place.firstRow, place.endRow, 1, [&](Value row) {
    Value start = lanes.mulIndex(lanes.subIndex(row, place.firstRow), stride);
    lanes.loop(lanes.index(0), depthCount, t.lanes, [&](Value k) {
      Value mask;
      if (!whole) {
        LaneBuilder::Shape shape(lanes, t.lanes, Value());
        mask = lanes.prefixMask(lanes.subIndex(depthCount, k));
      }
      LaneBuilder::Shape shape(lanes, t.lanes, mask);
      Lanes value =
          element(c.left, point(row, Lanes(), Lanes::linear(k, 1, t.lanes)));
      storeVector(lanes.vector(value), leftMemory, lanes.addIndex(start, k));
    });
  });
}

/// [depth][column] from an operand whose columns are neighbours.
void ContractionEmitter::packRight(Value firstDepth, Value depth) {
  SmallVector<Value> masks;
  for (int64_t j = 0; j < t.vectors; ++j)
    masks.push_back(columnMask(
        lanes.addIndex(place.firstColumn, lanes.index(j * t.lanes))));
  Value end = lanes.addIndex(firstDepth, depth);
  lanes.loop(firstDepth, end, 1, [&](Value k) {
    for (int64_t j = 0; j < t.vectors; ++j)
      storeVector(rightVector(k, j, masks[j]), panelMemory,
                  panelOffset(k, firstDepth, j));
  });
}

/// [depth][column] from an operand whose depths are neighbours: squares are
/// transposed in registers.
void ContractionEmitter::packRightTransposed(Value firstDepth, Value depth) {
  auto known = c.knownSize(c.depth);
  bool wholeDepth = known && *known % t.lanes == 0;
  auto columns = c.knownSize(c.column);
  bool wholeColumns = columns && *columns % t.columns() == 0;
  Value end = lanes.addIndex(firstDepth, depth);
  Value lastColumn = lanes.subIndex(columnCount, lanes.index(1));
  Value low = lanes.index(0), high = lanes.index(t.columns());
  lanes.loop(low, high, t.lanes, [&](Value group) {
    SmallVector<Value> sources;
    for (int64_t i = 0; i < t.lanes; ++i) {
      Value column = lanes.addIndex(lanes.addIndex(place.firstColumn, group),
                                    lanes.index(i));
      // Columns beyond the last repeat it; nobody reads their sums.
      sources.push_back(wholeColumns ? column
                                     : lanes.minIndex(column, lastColumn));
    }
    lanes.loop(firstDepth, end, t.lanes, [&](Value k) {
      Value mask;
      if (!wholeDepth) {
        LaneBuilder::Shape shape(lanes, t.lanes, Value());
        mask = lanes.prefixMask(lanes.subIndex(end, k));
      }
      LaneBuilder::Shape shape(lanes, t.lanes, mask);
      SmallVector<Value> square;
      for (Value column : sources)
        square.push_back(lanes.vector(
            element(c.right, point(Value(), Lanes::uniform(column),
                                   Lanes::linear(k, 1, t.lanes)))));
      Value offset = lanes.addIndex(panelOffset(k, firstDepth, 0), group);
      for (auto [i, vector] : llvm::enumerate(transpose(lanes, square)))
        storeVector(vector, panelMemory,
                    lanes.addIndex(offset, lanes.index(i * t.columns())));
    });
  });
}

} // namespace codegen
} // namespace anabranch
