//===- PackPanels.cpp - operands of a contraction into scratch ------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ContractionEmitter.h"

#include "codegen/emit/Transpose.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// The lanes of a vector from `column` on that are columns; null if all are.
/// Columns are counted in units of `unit`.
Value ContractionEmitter::columnMask(Value column, int64_t unit) {
  auto columns = c.knownSize(c.column);
  if (columns && *columns % unit == 0)
    return Value();
  LaneBuilder::MaskGuard guard(lanes, t.lanes, Value());
  Value rest = lanes.subIndex(columnCount, column);
  return lanes.prefixMask(lanes.maxIndex(rest, lanes.index(0)));
}

void ContractionEmitter::wholeOrLast(function_ref<void(bool whole)> emit) {
  auto columns = c.knownSize(c.column);
  if (columns && *columns % t.columns() == 0)
    return emit(/*whole=*/true);
  if (columns && *columns < t.columns())
    return emit(/*whole=*/false);
  Value end = lanes.addIndex(place.firstColumn, lanes.index(t.columns()));
  for (bool whole : {true, false}) {
    auto predicate =
        whole ? arith::CmpIPredicate::ule : arith::CmpIPredicate::ugt;
    Value holds = lanes.make<arith::CmpIOp>(predicate, end, columnCount);
    lanes.ifThen(holds, [&] { emit(whole); });
  }
}

Value ContractionEmitter::panelOffset(Value depth, Value firstDepth) {
  Value row = words(lanes.subIndex(depth, firstDepth));
  return lanes.mulIndex(row, lanes.index(t.columns()));
}

Value ContractionEmitter::depthWords(const ContractionOperand &operand,
                                     Value row, Value column, Value depth,
                                     Value end, bool whole) {
  int64_t width = t.lanes * t.pair;
  Value mask;
  if (!whole) {
    LaneBuilder::MaskGuard guard(lanes, width, Value());
    mask = lanes.prefixMask(lanes.subIndex(end, depth));
  }
  LaneBuilder::MaskGuard guard(lanes, width, mask);
  SmallVector<Lanes> at = point(row, column ? Lanes::uniform(column) : Lanes(),
                                Lanes::linear(depth, 1, width));
  Value vector = t.pair > 1 ? lanes.vector(stored(operand, at))
                            : lanes.vector(element(operand, at));
  if (mask) {
    // A producer may make anything of lanes that were not read.
    Value zero = lanes.constant(
        cast<TypedAttr>(lanes.builder.getZeroAttr(vector.getType())));
    vector = lanes.make<arith::SelectOp>(mask, vector, zero);
  }
  if (t.pair == 1)
    return vector;
  return lanes.make<LLVM::BitcastOp>(VectorType::get({t.lanes}, c.element),
                                     vector);
}

/// Lanes of the right operand along the columns at one depth, or at several
/// side by side, zero from `end` on.
Value ContractionEmitter::rightVector(Lanes column, Value depth, Value end,
                                      Value mask) {
  LaneBuilder::MaskGuard guard(lanes, t.lanes, mask, /*maybeEmpty=*/bool(mask));
  if (t.pair > 1)
    return rightPairs(column, depth, end);
  return lanes.vector(
      element(c.right, point(Value(), column, Lanes::uniform(depth))));
}

/// Vectors with the elements of several side by side: a0, b0, ..., a1, b1, ...
static Value interleave(LaneBuilder &lanes, ArrayRef<Value> vectors) {
  SmallVector<Value> parts(vectors);
  // Two at a time, first those that end up farthest apart.
  while (parts.size() > 1) {
    size_t half = parts.size() / 2;
    SmallVector<Value> next;
    for (size_t i = 0; i < half; ++i) {
      SmallVector<int64_t> order;
      int64_t size = cast<VectorType>(parts[i].getType()).getNumElements();
      for (int64_t lane = 0; lane < size; ++lane)
        order.append({lane, lane + size});
      next.push_back(
          lanes.make<vector::ShuffleOp>(parts[i], parts[i + half], order));
    }
    parts = std::move(next);
  }
  return parts[0];
}

Value ContractionEmitter::rightPairs(Lanes column, Value depth, Value end) {
  auto known = c.knownSize(c.depth);
  bool whole = known && *known % t.pair == 0;
  Value last = lanes.subIndex(end, lanes.index(1));
  SmallVector<Value> rows;
  for (int64_t i = 0; i < t.pair; ++i) {
    Value at = lanes.addIndex(depth, lanes.index(i));
    Value row = lanes.vector(stored(
        c.right, point(Value(), column,
                       Lanes::uniform(whole ? at : lanes.minIndex(at, last)))));
    if (i > 0 && !whole) {
      Value zero = lanes.constant(
          cast<TypedAttr>(lanes.builder.getZeroAttr(row.getType())));
      Value exists =
          lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, at, end);
      row = lanes.make<arith::SelectOp>(exists, row, zero);
    }
    rows.push_back(row);
  }
  return lanes.make<LLVM::BitcastOp>(VectorType::get({t.lanes}, c.element),
                                     interleave(lanes, rows));
}

/// [row][depth], with the depth padded to whole vectors.
void ContractionEmitter::packLeft() {
  Value stride = leftWords();
  int64_t width = t.lanes * t.pair;
  auto depth = c.knownSize(c.depth);
  bool whole = depth && *depth % width == 0;
  lanes.loop(place.firstRow, place.endRow, 1, [&](Value row) {
    Value start = lanes.mulIndex(lanes.subIndex(row, place.firstRow), stride);
    lanes.loop(lanes.index(0), depthCount, width, [&](Value k) {
      Value vector = depthWords(c.left, row, Value(), k, depthCount, whole);
      storeVector(vector, leftMemory, lanes.addIndex(start, words(k)));
    });
  });
}

/// [depth][column] from an operand whose columns are neighbours.
void ContractionEmitter::packRight(Value firstDepth, Value depth) {
  Value end = lanes.addIndex(firstDepth, depth);
  auto pack = [&](bool whole) {
    SmallVector<Value> columns, masks;
    for (int64_t j = 0; j < t.vectors; ++j) {
      columns.push_back(
          lanes.addIndex(place.firstColumn, lanes.index(j * t.lanes)));
      // It may have whole vectors beyond the last column.
      masks.push_back(whole ? Value()
                            : columnMask(columns.back(), t.columns()));
    }
    lanes.loop(firstDepth, end, t.pair, [&](Value k) {
      Value offset = panelOffset(k, firstDepth);
      for (int64_t j = 0; j < t.vectors; ++j)
        storeVector(rightVector(Lanes::linear(columns[j], 1, t.lanes), k, end,
                                masks[j]),
                    panelMemory,
                    lanes.addIndex(offset, lanes.index(j * t.lanes)));
    });
  };
  // Only the last panel needs masks.
  wholeOrLast(pack);
}

/// [depth][column] from windows, which are neighbours within a row only: the
/// part of each row that the panel has, in pieces of a vector.
void ContractionEmitter::packWindows(Value firstDepth, Value depth) {
  Value row = lanes.index(c.right.windowRow);
  Value end = lanes.addIndex(firstDepth, depth);
  Value stop = lanes.minIndex(
      lanes.addIndex(place.firstColumn, lanes.index(t.columns())), columnCount);
  // What lies in the memory might slow the products that nobody reads down.
  auto known = c.knownSize(c.column);
  if (!known || *known % t.columns() != 0)
    lanes.ifThen(
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt,
                                  lanes.subIndex(stop, place.firstColumn),
                                  lanes.index(t.columns())),
        [&] { clearPanel(depth); });
  lanes.loop(lanes.divIndex(place.firstColumn, row),
             lanes.ceilDivIndex(stop, row), 1, [&](Value number) {
               Value first = lanes.mulIndex(number, row);
               Value last = lanes.addIndex(first, row);
               packPieces(lanes.maxIndex(first, place.firstColumn),
                          lanes.minIndex(last, stop), firstDepth, end);
             });
}

void ContractionEmitter::clearPanel(Value depth) {
  Value size = lanes.mulIndex(words(depth), lanes.index(t.columns()));
  Value zero = lanes.constant(cast<TypedAttr>(
      lanes.builder.getZeroAttr(VectorType::get({t.lanes}, c.element))));
  lanes.loop(lanes.index(0), size, t.lanes,
             [&](Value offset) { storeVector(zero, panelMemory, offset); });
}

/// Window by window, so that where a point lies within it is known.
void ContractionEmitter::forEachDepth(Value first, Value end,
                                      function_ref<void(Value)> body) {
  int64_t points = c.right.windowPoints;
  if (!points || t.pair > 1 || (!isOneBlock() && t.depth % points != 0))
    return lanes.loop(first, end, t.pair, body);
  Value size = lanes.index(points);
  lanes.loop(lanes.divIndex(first, size), lanes.divIndex(end, size), 1,
             [&](Value window) {
               Value start = lanes.mulIndex(window, size);
               for (int64_t point = 0; point < points; ++point)
                 body(lanes.addIndex(start, lanes.index(point)));
             });
}

/// The columns of one row from `column` to `stop`.
void ContractionEmitter::packPieces(Value column, Value stop, Value firstDepth,
                                    Value end) {
  auto pack = [&](Value piece, Value mask) {
    Value start = lanes.subIndex(piece, place.firstColumn);
    Lanes columns = Lanes::linear(piece, 1, 1, c.right.windowRow);
    forEachDepth(firstDepth, end, [&](Value k) {
      Value vector = rightVector(columns, k, end, mask);
      Value offset = lanes.addIndex(panelOffset(k, firstDepth), start);
      if (mask)
        lanes.builder.create<LLVM::MaskedStoreOp>(
            lanes.loc, vector, pointerTo(panelMemory, offset), mask,
            lanes.builder.getI32IntegerAttr(elementBytes(c.element)));
      else
        storeVector(vector, panelMemory, offset);
    });
  };
  Value width = lanes.index(t.lanes);
  Value count = lanes.divIndex(lanes.subIndex(stop, column), width);
  Value whole = lanes.addIndex(column, lanes.mulIndex(count, width));
  lanes.loop(column, whole, t.lanes,
             [&](Value piece) { pack(piece, Value()); });
  Value some =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, whole, stop);
  lanes.ifThen(some, [&] {
    Value mask;
    {
      LaneBuilder::MaskGuard guard(lanes, t.lanes, Value());
      mask = lanes.prefixMask(lanes.subIndex(stop, whole));
    }
    pack(whole, mask);
  });
}

/// [depth][column] from an operand whose depths are neighbours: squares are
/// transposed in registers.
void ContractionEmitter::packRightTransposed(Value firstDepth, Value depth) {
  auto known = c.knownSize(c.depth);
  int64_t width = t.lanes * t.pair;
  bool wholeDepth = known && *known % width == 0;
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
    lanes.loop(firstDepth, end, width, [&](Value k) {
      SmallVector<Value> square;
      for (Value column : sources)
        square.push_back(
            depthWords(c.right, Value(), column, k, end, wholeDepth));
      Value offset = lanes.addIndex(panelOffset(k, firstDepth), group);
      for (auto [i, vector] : llvm::enumerate(transpose(lanes, square)))
        storeVector(vector, panelMemory,
                    lanes.addIndex(offset, lanes.index(i * t.columns())));
    });
  });
}

} // namespace codegen
} // namespace anabranch
