//===- PartPanels.cpp - panels of a right operand in parts ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/PartPanels.h"

#include "kernels/emit/Transpose.h"
#include "kernels/microkernel/FloatParts.h"
#include "kernels/microkernel/TileBlock.h"
#include "kernels/operands/WeightIntegers.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

PartPanels::PartPanels(GemmContext &gemm, Value panel)
    : gemm(gemm), lanes(gemm.lanes), panel(panel),
      reader(gemm, gemm.contraction.right) {}

int64_t PartPanels::partElements(const GemmContext &gemm) {
  return gemm.layout.tiling.depth / gemm.layout.word.kPack *
         gemm.layout.tiling.columns();
}

void PartPanels::fill(Value first, Value end) {
  firstDepth = first;
  endDepth = end;
  if (auto weight = QuantizedOperand::find(gemm.contraction)) {
    fillFromIntegers(*weight);
  } else if (gemm.contraction.right.panels) {
    Value source = reader.addressOf(gemm.point(
        Value(), Lanes::uniform(gemm.tile.firstColumn), Lanes::uniform(first)));
    fillSteps([&](Value depth, int64_t vector) {
      return loadFrom(source, depth, vector);
    });
  } else if (gemm.layout.right.form == RightAccess::Form::CopiedTransposed) {
    fillTransposed();
  } else {
    fillFromColumns();
  }
}

void PartPanels::fillShare(GemmContext &gemm, const Ahead &ahead, Value step,
                           Value block, Value blocks) {
  LaneBuilder &lanes = gemm.lanes;
  PartPanels panels(gemm, ahead.panel);
  panels.firstDepth = ahead.first;
  panels.endDepth = ahead.end;
  Value words = lanes.index(TileBlock::words);
  Value depths = lanes.index(gemm.layout.stepDepths());
  Value start = lanes.addIndex(ahead.first, lanes.mulIndex(step, depths));
  Value share = lanes.ceilDivIndex(words, blocks);
  Value low = lanes.minIndex(lanes.mulIndex(block, share), words);
  Value high = lanes.minIndex(lanes.addIndex(low, share), words);
  Value exists =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, start, ahead.end);
  lanes.ifThen(exists, [&] {
    panels.fillWords(start, low, high, [&](Value depth, int64_t vector) {
      return panels.loadFrom(ahead.source, depth, vector);
    });
  });
}

void PartPanels::store(ArrayRef<Value> parts, Value word, Value column) {
  Value at = lanes.addIndex(
      lanes.mulIndex(word, lanes.index(gemm.layout.tiling.columns())), column);
  storeParts(lanes, gemm.memory, parts, panel, at,
             partElements(gemm) * gemm.memory.elementBytes());
}

/// The vector, or zeros if the depth is after the last.
Value PartPanels::orZero(Value vector, Value depth) {
  if (gemm.depthIsMultipleOf(gemm.layout.stepDepths()))
    return vector;
  Value exists =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, depth, endDepth);
  return lanes.make<arith::SelectOp>(exists, vector, gemm.memory.zeroVector());
}

/// Fills whole steps of words. `load` gives the elements of a depth in a vector
/// of the panel's columns.
void PartPanels::fillSteps(Load load) {
  Value words = lanes.index(TileBlock::words);
  lanes.loop(firstDepth, endDepth, gemm.layout.stepDepths(),
             [&](Value step) { fillWords(step, lanes.index(0), words, load); });
}

/// Fills words, from `low` to before `high`, of the step that begins at a
/// depth.
void PartPanels::fillWords(Value step, Value low, Value high, Load load) {
  const ProductLayout &layout = gemm.layout;
  bool whole = gemm.depthIsMultipleOf(layout.stepDepths());
  Value last = lanes.subIndex(endDepth, lanes.index(1));
  auto loadOrZero = [&](Value depth, int64_t vector) {
    Value at = whole ? depth : lanes.minIndex(depth, last);
    return orZero(load(at, vector), depth);
  };
  Value first = gemm.words(lanes.subIndex(step, firstDepth));
  lanes.loop(low, high, 1, [&](Value word) {
    Value lower = lanes.addIndex(step, word);
    Value upper = lanes.addIndex(lower, lanes.index(TileBlock::words));
    for (int64_t j = 0; j < layout.tiling.vectors; ++j)
      store(splitToParts(lanes, loadOrZero(lower, j), loadOrZero(upper, j),
                         layout.steps.parts),
            lanes.addIndex(first, word), lanes.index(j * layout.tiling.lanes));
  });
}

/// A vector of a panel of floats, whose columns after the last are zero.
Value PartPanels::loadFrom(Value source, Value depth, int64_t vector) {
  const ContractionOperand &operand = gemm.contraction.right;
  Value row = lanes.mulIndex(lanes.subIndex(depth, firstDepth),
                             lanes.index(operand.panels->width));
  Value at =
      lanes.addIndex(row, lanes.index(vector * gemm.layout.tiling.lanes));
  return gemm.memory.loadExtended(operand.memory, source, at);
}

/// An operand whose columns are neighbours, or one that is computed.
void PartPanels::fillFromColumns() {
  const ProductLayout &layout = gemm.layout;
  gemm.wholeOrLast([&](bool whole) {
    SmallVector<Value> columns, masks;
    for (int64_t j = 0; j < layout.tiling.vectors; ++j) {
      columns.push_back(lanes.addIndex(gemm.tile.firstColumn,
                                       lanes.index(j * layout.tiling.lanes)));
      masks.push_back(
          whole ? Value()
                : gemm.columnMask(columns[j], layout.tiling.columns()));
    }
    fillSteps([&](Value depth, int64_t vector) {
      LaneBuilder::MaskGuard guard(lanes, layout.tiling.lanes, masks[vector],
                                   /*maybeEmpty=*/true);
      Lanes column = Lanes::linear(columns[vector], 1, layout.tiling.lanes);
      return lanes.vector(
          reader.element(gemm.point(Value(), column, Lanes::uniform(depth))));
    });
  });
}

/// A weight of few bits. The steps of its layout divide those of registers.
void PartPanels::fillFromIntegers(const QuantizedOperand &weight) {
  const ir::QuantizedWeight &layout = weight.layout;
  WeightIntegers integers(gemm, weight);
  int64_t depths = layout.stepDepths(), words = TileBlock::words;
  int64_t most = layout.steps(weight.depths) - 1;
  bool whole = gemm.depthIsMultipleOf(gemm.layout.stepDepths());
  lanes.loop(firstDepth, endDepth, gemm.layout.stepDepths(), [&](Value at) {
    Value first = gemm.words(lanes.subIndex(at, firstDepth));
    Value step = lanes.divIndex(at, lanes.index(depths));
    for (int64_t j = 0; j < gemm.layout.tiling.vectors; ++j) {
      Value column = integers.columnAt(j * gemm.layout.tiling.lanes);
      SmallVector<Value> bytes;
      for (int64_t i = 0; i < gemm.layout.stepDepths() / depths; ++i) {
        Value next = lanes.addIndex(step, lanes.index(i));
        if (!whole)
          next = lanes.minIndex(next, lanes.index(most));
        bytes.push_back(integers.load(next, column));
      }
      for (int64_t i = 0; i < words; ++i) {
        Value low = bytes[i / depths], high = bytes[(i + words) / depths];
        store({integers.pairs(low, high, i % depths)},
              lanes.addIndex(first, lanes.index(i)),
              lanes.index(j * gemm.layout.tiling.lanes));
      }
    }
  });
}

/// An operand whose depths are neighbours: squares of words are transposed in
/// registers.
void PartPanels::fillTransposed() {
  const ProductLayout &layout = gemm.layout;
  Value columns = lanes.index(layout.tiling.columns());
  lanes.loop(lanes.index(0), columns, layout.tiling.lanes, [&](Value group) {
    lanes.loop(firstDepth, endDepth, layout.stepDepths(),
               [&](Value step) { fillSquares(group, step); });
  });
}

/// Fills a step of a vector of columns: a square of words for each part.
void PartPanels::fillSquares(Value group, Value step) {
  const ProductLayout &layout = gemm.layout;
  auto known = gemm.contraction.knownSize(gemm.contraction.column);
  bool wholeColumns = known && *known % layout.tiling.columns() == 0;
  bool wholeDepth = gemm.depthIsMultipleOf(layout.stepDepths());
  Value lastColumn = lanes.subIndex(gemm.columnCount, lanes.index(1));
  Value first = lanes.addIndex(gemm.tile.firstColumn, group);
  SmallVector<SmallVector<Value>> squares(layout.steps.parts);
  for (int64_t i = 0; i < layout.tiling.lanes; ++i) {
    Value column = lanes.addIndex(first, lanes.index(i));
    // Columns after the last one repeat it. Their sums are not read.
    if (!wholeColumns)
      column = lanes.minIndex(column, lastColumn);
    auto read = [&](int64_t from) {
      return reader.elements(Value(), column,
                             lanes.addIndex(step, lanes.index(from)), endDepth,
                             wholeDepth);
    };
    SmallVector<Value> parts = splitToParts(
        lanes, read(0), read(layout.tiling.lanes), layout.steps.parts);
    for (auto [square, part] : llvm::zip_equal(squares, parts))
      square.push_back(part);
  }
  for (auto &square : squares)
    square = transpose(lanes, square);
  Value word = gemm.words(lanes.subIndex(step, firstDepth));
  for (int64_t i = 0; i < layout.tiling.lanes; ++i) {
    SmallVector<Value> parts = llvm::map_to_vector(
        squares, [&](const auto &square) { return square[i]; });
    store(parts, lanes.addIndex(word, lanes.index(i)), group);
  }
}

} // namespace kernels
} // namespace anabranch
