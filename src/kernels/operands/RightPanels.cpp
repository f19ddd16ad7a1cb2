//===- RightPanels.cpp - panels of a product's right operand --------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/RightPanels.h"

#include "kernels/emit/Transpose.h"
#include "kernels/microkernel/TileBlock.h"
#include "kernels/operands/PartPanels.h"
#include "kernels/operands/UnpackedPanel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

int64_t RightPanels::scratchElements(const GemmContext &gemm) {
  const ProductLayout &layout = gemm.layout;
  const Tiling &tiling = layout.tiling;
  if (!layout.right.isCopied() && !mayCopyCodes(gemm))
    return 0;
  if (layout.steps.hasParts())
    return PartPanels::scratchElements(gemm);
  // Some copies write whole vectors along the depth.
  int64_t kPack = layout.word.kPack;
  auto depth = int64_t(llvm::alignTo(tiling.depth, tiling.lanes * kPack));
  return depth / kPack * tiling.columns();
}

OperandReader::Address RightPanels::prepare(Value first, Value count) {
  using Form = RightAccess::Form;
  const ProductLayout &layout = gemm.layout;
  firstDepth = first;
  depthCount = count;
  endDepth = lanes.addIndex(first, count);
  if (layout.right.form == Form::Codes)
    return {codesOrPairs(), Value()};
  if (!layout.right.isCopied())
    return sourceAt(first, layout.right.form != Form::Panels);
  if (layout.steps.hasParts()) {
    PartPanels(gemm, packed).fill(first, endDepth);
    return {packed, Value()};
  }
  bool padsChannels = layout.left.patch && layout.left.patch->padsChannels();
  if (layout.usesTileRegisters() && !padsChannels)
    clearAfter();
  if (padsChannels)
    packPaddedChannels();
  else if (auto weight = QuantizedOperand::find(gemm.contraction))
    UnpackedPanel(gemm, *weight, packed).fill(first, endDepth);
  else if (layout.right.form == Form::CopiedSplit)
    splitPanel();
  else if (layout.right.form == Form::CopiedTransposed)
    packTransposed();
  else if (gemm.contraction.right.windowRow)
    packWindows();
  else
    packColumns();
  return {packed, Value()};
}

/// The address of the panel's first column in the operand itself.
OperandReader::Address RightPanels::sourceAt(Value depth, bool withStep) {
  return reader.addressAlongDepth(depth, withStep ? 1 : 0, [&](Lanes at) {
    return gemm.point(Value(), Lanes::uniform(gemm.tile.firstColumn), at);
  });
}

/// The address of a depth of the panel's first column.
Value RightPanels::codesAt(Value depth) {
  auto weight = QuantizedOperand::find(gemm.contraction);
  WeightIntegers codes(gemm, *weight);
  Value step = lanes.divIndex(depth, lanes.index(weight->layout.stepDepths()));
  return codes.addressOf(step, codes.columnAt(0));
}

bool RightPanels::mayCopyCodes(const GemmContext &gemm) {
  return gemm.layout.right.form == RightAccess::Form::Codes &&
         !gemm.contraction.knownSize(gemm.contraction.rows);
}

Value RightPanels::copiesCodes(GemmContext &gemm) {
  LaneBuilder &lanes = gemm.lanes;
  return lanes.make<arith::CmpIOp>(
      arith::CmpIPredicate::ugt,
      lanes.subIndex(gemm.tile.endRow, gemm.tile.firstRow),
      lanes.index(gemm.layout.tiling.rows));
}

/// The address of the block's codes, or of a copy as pairs.
Value RightPanels::codesOrPairs() {
  if (!mayCopyCodes(gemm))
    return codesAt(firstDepth);
  auto weight = QuantizedOperand::find(gemm.contraction);
  return lanes.ifElse(
      copiesCodes(gemm), packed.getType(),
      [&]() -> SmallVector<Value> {
        UnpackedPanel(gemm, *weight, packed).fill(firstDepth, endDepth);
        return {packed};
      },
      [&]() -> SmallVector<Value> { return {codesAt(firstDepth)}; })[0];
}

/// The offset at which the words of a depth begin in the copy.
Value RightPanels::offsetOf(Value depth) {
  Value row = gemm.words(lanes.subIndex(depth, firstDepth));
  return lanes.mulIndex(row, lanes.index(gemm.layout.tiling.columns()));
}

/// A vector of words along the columns, of which `depth` is the first depth.
Value RightPanels::wordsAt(Lanes column, Value depth, Value mask) {
  LaneBuilder::MaskGuard guard(lanes, gemm.layout.tiling.lanes, mask,
                               /*maybeEmpty=*/true);
  if (gemm.layout.word.kPack > 1)
    return packedWordsAt(column, depth);
  return lanes.vector(
      reader.element(gemm.point(Value(), column, Lanes::uniform(depth))));
}

/// The elements of several vectors side by side: a0, b0, ..., a1, b1, ...
static Value interleave(LaneBuilder &lanes, ArrayRef<Value> vectors) {
  SmallVector<Value> parts(vectors);
  // Interleaves two at a time, beginning with those that end up farthest apart.
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

/// Words of `count` depths, with zeros after them.
Value RightPanels::someWordsAt(Lanes column, Value depth, int64_t count) {
  SmallVector<Value> rows;
  for (int64_t i = 0; i < count; ++i) {
    Value at = lanes.addIndex(depth, lanes.index(i));
    rows.push_back(
        reader.bits(gemm.point(Value(), column, Lanes::uniform(at))));
  }
  Value zero = lanes.constant(
      cast<TypedAttr>(lanes.builder.getZeroAttr(rows[0].getType())));
  rows.resize(gemm.layout.word.kPack, zero);
  return lanes.make<LLVM::BitcastOp>(gemm.memory.vectorType(),
                                     interleave(lanes, rows));
}

/// Words of several depths each, with zeros after the end of the block.
Value RightPanels::packedWordsAt(Lanes column, Value depth) {
  int64_t kPack = gemm.layout.word.kPack;
  bool whole = gemm.depthIsMultipleOf(kPack);
  if (whole)
    return someWordsAt(column, depth, kPack);
  Value last = lanes.subIndex(endDepth, lanes.index(1));
  SmallVector<Value> rows;
  for (int64_t i = 0; i < kPack; ++i) {
    Value at = lanes.addIndex(depth, lanes.index(i));
    Lanes read = Lanes::uniform(lanes.minIndex(at, last));
    Value row = reader.bits(gemm.point(Value(), column, read));
    if (i > 0) {
      Value zero = lanes.constant(
          cast<TypedAttr>(lanes.builder.getZeroAttr(row.getType())));
      Value exists =
          lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, at, endDepth);
      row = lanes.make<arith::SelectOp>(exists, row, zero);
    }
    rows.push_back(row);
  }
  return lanes.make<LLVM::BitcastOp>(gemm.memory.vectorType(),
                                     interleave(lanes, rows));
}

/// Calls `body` for the vectors of columns of the panel, which may have whole
/// vectors after the last column.
void RightPanels::forVectors(
    function_ref<void(ArrayRef<Value> columns, ArrayRef<Value> masks)> body) {
  int64_t width = gemm.layout.tiling.lanes;
  // Only the last panel needs masks.
  gemm.wholeOrLast([&](bool whole) {
    SmallVector<Value> columns, masks;
    for (int64_t j = 0; j < gemm.layout.tiling.vectors; ++j) {
      columns.push_back(
          lanes.addIndex(gemm.tile.firstColumn, lanes.index(j * width)));
      masks.push_back(whole ? Value()
                            : gemm.columnMask(columns.back(),
                                              gemm.layout.tiling.columns()));
    }
    body(columns, masks);
  });
}

/// Packs an operand whose columns are neighbours.
void RightPanels::packColumns() {
  int64_t width = gemm.layout.tiling.lanes;
  forVectors([&](ArrayRef<Value> columns, ArrayRef<Value> masks) {
    lanes.loop(firstDepth, endDepth, gemm.layout.word.kPack, [&](Value k) {
      Value offset = offsetOf(k);
      for (size_t j = 0; j < columns.size(); ++j) {
        Value words = wordsAt(Lanes::linear(columns[j], 1, width), k, masks[j]);
        gemm.memory.store(words, packed,
                          lanes.addIndex(offset, lanes.index(j * width)));
      }
    });
  });
}

/// Packs the whole depth, whose points get channels of zeros as those of the
/// left operand do (PatchShape.h).
void RightPanels::packPaddedChannels() {
  const PatchShape &patch = *gemm.layout.left.patch;
  int64_t width = gemm.layout.tiling.lanes, kPack = gemm.layout.word.kPack;
  int64_t columnsOfPanel = gemm.layout.tiling.columns();
  Value channels = lanes.index(patch.imageChannels);
  Value taps = lanes.divIndex(depthCount, channels);
  forVectors([&](ArrayRef<Value> columns, ArrayRef<Value> masks) {
    lanes.loop(lanes.index(0), taps, 1, [&](Value tap) {
      Value first = lanes.mulIndex(tap, channels);
      Value to = lanes.mulIndex(
          tap, lanes.index(patch.channels / kPack * columnsOfPanel));
      for (int64_t channel = 0; channel < patch.channels; channel += kPack)
        for (size_t j = 0; j < columns.size(); ++j) {
          LaneBuilder::MaskGuard guard(lanes, width, masks[j],
                                       /*maybeEmpty=*/true);
          Value words =
              someWordsAt(Lanes::linear(columns[j], 1, width),
                          lanes.addIndex(first, lanes.index(channel)),
                          std::min(kPack, patch.imageChannels - channel));
          int64_t offset = channel / kPack * columnsOfPanel + j * width;
          gemm.memory.store(words, packed,
                            lanes.addIndex(to, lanes.index(offset)));
        }
    });
  });
}

/// Packs windows, whose columns are neighbours within a row only: copies the
/// panel's part of each row, one vector at a time.
void RightPanels::packWindows() {
  Value row = lanes.index(gemm.contraction.right.windowRow);
  Value width = lanes.index(gemm.layout.tiling.columns());
  Value firstColumn = gemm.tile.firstColumn;
  Value stop =
      lanes.minIndex(lanes.addIndex(firstColumn, width), gemm.columnCount);
  // Undefined words, which belong to products that nobody reads, might be slow
  // numbers such as denormals. So they are cleared.
  auto known = gemm.contraction.knownSize(gemm.contraction.column);
  if (!known || *known % gemm.layout.tiling.columns() != 0) {
    Value isLast = lanes.make<arith::CmpIOp>(
        arith::CmpIPredicate::slt, lanes.subIndex(stop, firstColumn), width);
    lanes.ifThen(isLast, [&] { clear(); });
  }
  lanes.loop(lanes.divIndex(firstColumn, row), lanes.ceilDivIndex(stop, row), 1,
             [&](Value number) {
               Value first = lanes.mulIndex(number, row);
               Value last = lanes.addIndex(first, row);
               packWindowRow(lanes.maxIndex(first, firstColumn),
                             lanes.minIndex(last, stop));
             });
}

void RightPanels::clear() {
  Value size = lanes.mulIndex(gemm.words(depthCount),
                              lanes.index(gemm.layout.tiling.columns()));
  Value zero = gemm.memory.zeroVector();
  lanes.loop(lanes.index(0), size, gemm.layout.tiling.lanes,
             [&](Value offset) { gemm.memory.store(zero, packed, offset); });
}

/// Clears the words after the last, up to whole tile registers.
void RightPanels::clearAfter() {
  int64_t step = TileBlock::words;
  if (gemm.depthIsMultipleOf(step * gemm.layout.word.kPack))
    return;
  int64_t columns = gemm.layout.tiling.columns();
  Value end = gemm.words(depthCount);
  Value whole = lanes.mulIndex(lanes.ceilDivIndex(end, lanes.index(step)),
                               lanes.index(step * columns));
  Value zero = gemm.memory.zeroVector();
  lanes.loop(lanes.mulIndex(end, lanes.index(columns)), whole,
             gemm.layout.tiling.lanes,
             [&](Value offset) { gemm.memory.store(zero, packed, offset); });
}

/// Goes over the depths of the block word by word. For windows it goes window
/// by window, so that a point's place in its window is known.
void RightPanels::forEachWord(function_ref<void(Value depth)> body) {
  const ProductLayout &layout = gemm.layout;
  int64_t points = gemm.contraction.right.windowPoints;
  if (!points || layout.word.kPack > 1 ||
      (!gemm.isOneBlock() && layout.tiling.depth % points != 0))
    return lanes.loop(firstDepth, endDepth, layout.word.kPack, body);
  Value size = lanes.index(points);
  lanes.loop(lanes.divIndex(firstDepth, size), lanes.divIndex(endDepth, size),
             1, [&](Value window) {
               Value start = lanes.mulIndex(window, size);
               for (int64_t point = 0; point < points; ++point)
                 body(lanes.addIndex(start, lanes.index(point)));
             });
}

/// Packs the columns of one row of windows, from `column` to `stop`.
void RightPanels::packWindowRow(Value column, Value stop) {
  Value width = lanes.index(gemm.layout.tiling.lanes);
  Value count = lanes.divIndex(lanes.subIndex(stop, column), width);
  Value whole = lanes.addIndex(column, lanes.mulIndex(count, width));
  lanes.loop(column, whole, gemm.layout.tiling.lanes,
             [&](Value piece) { packPiece(piece, Value()); });
  Value some =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, whole, stop);
  lanes.ifThen(some, [&] {
    Value mask;
    {
      LaneBuilder::MaskGuard guard(lanes, gemm.layout.tiling.lanes, Value());
      mask = lanes.prefixMask(lanes.subIndex(stop, whole));
    }
    packPiece(whole, mask);
  });
}

/// Packs a vector of columns of one row of windows.
void RightPanels::packPiece(Value column, Value mask) {
  Value start = lanes.subIndex(column, gemm.tile.firstColumn);
  Lanes columns = Lanes::linear(column, 1, 1, gemm.contraction.right.windowRow);
  forEachWord([&](Value k) {
    Value words = wordsAt(columns, k, mask);
    Value offset = lanes.addIndex(offsetOf(k), start);
    if (mask)
      gemm.memory.storeMasked(words, packed, offset, mask);
    else
      gemm.memory.store(words, packed, offset);
  });
}

/// Unpacks a panel of pairs: each word makes elements of two depths.
void RightPanels::splitPanel() {
  const ProductLayout &layout = gemm.layout;
  int64_t kPack = gemm.contraction.right.panels->kPack;
  int64_t width = gemm.contraction.right.panels->width;
  Value panel = sourceAt(firstDepth, /*withStep=*/false).pointer;
  WordProduct product;
  product.pairs = WordProduct::Pairs::Split;
  // Words of bf16 are as long as the sums.
  Value words = lanes.ceilDivIndex(depthCount, lanes.index(kPack));
  lanes.loop(lanes.index(0), words, 1, [&](Value word) {
    Value from = lanes.mulIndex(word, lanes.index(width));
    Value to =
        lanes.mulIndex(word, lanes.index(kPack * layout.tiling.columns()));
    for (int64_t j = 0; j < layout.tiling.vectors; ++j) {
      Value column = lanes.index(j * layout.tiling.lanes);
      WordProduct::Factor parts = product.right(
          lanes, gemm.memory.loadVector(panel, lanes.addIndex(from, column)));
      for (auto [i, part] : llvm::enumerate(parts))
        gemm.memory.store(
            part, packed,
            lanes.addIndex(lanes.addIndex(to, column),
                           lanes.index(i * layout.tiling.columns())));
    }
  });
}

/// Packs an operand whose depths are neighbours: squares are transposed in
/// registers.
void RightPanels::packTransposed() {
  int64_t vector = gemm.layout.tiling.lanes,
          width = vector * gemm.layout.word.kPack;
  int64_t panelColumns = gemm.layout.tiling.columns();
  bool wholeDepth = gemm.depthIsMultipleOf(width);
  auto columns = gemm.contraction.knownSize(gemm.contraction.column);
  bool wholeColumns = columns && *columns % panelColumns == 0;
  Value lastColumn = lanes.subIndex(gemm.columnCount, lanes.index(1));
  Value low = lanes.index(0), high = lanes.index(panelColumns);
  lanes.loop(low, high, vector, [&](Value group) {
    SmallVector<Value> sources;
    for (int64_t i = 0; i < vector; ++i) {
      Value column = lanes.addIndex(
          lanes.addIndex(gemm.tile.firstColumn, group), lanes.index(i));
      // Columns after the last one repeat it. Their sums are not read.
      sources.push_back(wholeColumns ? column
                                     : lanes.minIndex(column, lastColumn));
    }
    lanes.loop(firstDepth, endDepth, width, [&](Value k) {
      SmallVector<Value> square;
      for (Value column : sources)
        square.push_back(
            reader.words(Value(), column, k, endDepth, wholeDepth));
      Value offset = lanes.addIndex(offsetOf(k), group);
      for (auto [i, words] : llvm::enumerate(transpose(lanes, square)))
        gemm.memory.store(
            words, packed,
            lanes.addIndex(offset, lanes.index(i * panelColumns)));
    });
  });
}

} // namespace kernels
} // namespace anabranch
