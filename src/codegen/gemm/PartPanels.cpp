//===- PartPanels.cpp - panels of a right operand in parts ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/PartPanels.h"

#include "codegen/emit/Transpose.h"
#include "codegen/microkernel/AmxBlock.h"
#include "codegen/microkernel/FloatParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

PartPanels::PartPanels(GemmContext &gemm, Value panel)
    : gemm(gemm), lanes(gemm.lanes), panel(panel),
      reader(gemm, gemm.contraction.right) {}

int64_t PartPanels::partElements(const GemmContext &gemm) {
  return gemm.blocking.depth / gemm.blocking.kPack * gemm.blocking.columns();
}

void PartPanels::fill(Value first, Value end) {
  firstDepth = first;
  endDepth = end;
  if (gemm.contraction.right.panels) {
    Value source = reader.addressOf(gemm.point(
        Value(), Lanes::uniform(gemm.tile.firstColumn), Lanes::uniform(first)));
    fillSteps([&](Value depth, int64_t vector) {
      return loadFrom(source, depth, vector);
    });
  } else if (gemm.blocking.right == GemmBlocking::Right::PackTransposed) {
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
  Value words = lanes.index(AmxBlock::words);
  Value depths = lanes.index(AmxBlock::words * gemm.blocking.kPack);
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
      lanes.mulIndex(word, lanes.index(gemm.blocking.columns())), column);
  for (auto [i, part] : llvm::enumerate(parts))
    gemm.memory.store(part, panel,
                      lanes.addIndex(at, lanes.index(i * partElements(gemm))));
}

/// The vector, or zeros if the depth is behind the last.
Value PartPanels::orZero(Value vector, Value depth) {
  if (gemm.depthIsMultipleOf(AmxBlock::words * gemm.blocking.kPack))
    return vector;
  Value exists =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, depth, endDepth);
  return lanes.make<arith::SelectOp>(exists, vector, gemm.memory.zeroVector());
}

/// Fills whole steps of words. `load` gives the elements of a depth in a vector
/// of the panel's columns.
void PartPanels::fillSteps(Load load) {
  constexpr int64_t words = AmxBlock::words;
  lanes.loop(firstDepth, endDepth, words * gemm.blocking.kPack,
             [&](Value step) {
               fillWords(step, lanes.index(0), lanes.index(words), load);
             });
}

/// Fills words, from `low` to before `high`, of the step that begins at a
/// depth.
void PartPanels::fillWords(Value step, Value low, Value high, Load load) {
  const GemmBlocking &blocking = gemm.blocking;
  constexpr int64_t words = AmxBlock::words;
  bool whole = gemm.depthIsMultipleOf(words * blocking.kPack);
  Value last = lanes.subIndex(endDepth, lanes.index(1));
  auto loadOrZero = [&](Value depth, int64_t vector) {
    Value at = whole ? depth : lanes.minIndex(depth, last);
    return orZero(load(at, vector), depth);
  };
  Value first = gemm.words(lanes.subIndex(step, firstDepth));
  lanes.loop(low, high, 1, [&](Value word) {
    Value lower = lanes.addIndex(step, word);
    Value upper = lanes.addIndex(lower, lanes.index(words));
    for (int64_t j = 0; j < blocking.vectors; ++j)
      store(splitToParts(lanes, loadOrZero(lower, j), loadOrZero(upper, j),
                         blocking.parts),
            lanes.addIndex(first, word), lanes.index(j * blocking.lanes));
  });
}

/// A vector of a panel of floats, whose columns behind the last are zero.
Value PartPanels::loadFrom(Value source, Value depth, int64_t vector) {
  const ContractionOperand &operand = gemm.contraction.right;
  TypedMemory floats(lanes, operand.memory, gemm.blocking.lanes);
  Value row = lanes.mulIndex(lanes.subIndex(depth, firstDepth),
                             lanes.index(operand.panels->width));
  Value at = lanes.addIndex(row, lanes.index(vector * gemm.blocking.lanes));
  return gemm.memory.extendFloat(Lanes::varying(floats.loadVector(source, at)))
      .value;
}

/// An operand whose columns are neighbours, or one that is computed.
void PartPanels::fillFromColumns() {
  const GemmBlocking &blocking = gemm.blocking;
  gemm.wholeOrLast([&](bool whole) {
    SmallVector<Value> columns, masks;
    for (int64_t j = 0; j < blocking.vectors; ++j) {
      columns.push_back(lanes.addIndex(gemm.tile.firstColumn,
                                       lanes.index(j * blocking.lanes)));
      masks.push_back(whole ? Value()
                            : gemm.columnMask(columns[j], blocking.columns()));
    }
    fillSteps([&](Value depth, int64_t vector) {
      LaneBuilder::MaskGuard guard(lanes, blocking.lanes, masks[vector],
                                   /*maybeEmpty=*/true);
      Lanes column = Lanes::linear(columns[vector], 1, blocking.lanes);
      return lanes.vector(
          reader.element(gemm.point(Value(), column, Lanes::uniform(depth))));
    });
  });
}

/// An operand whose depths are neighbours: squares of words are transposed in
/// registers.
void PartPanels::fillTransposed() {
  const GemmBlocking &blocking = gemm.blocking;
  int64_t width = blocking.lanes, step = width * blocking.kPack;
  bool whole = gemm.depthIsMultipleOf(step);
  auto known = gemm.contraction.knownSize(gemm.contraction.column);
  bool wholeColumns = known && *known % blocking.columns() == 0;
  Value lastColumn = lanes.subIndex(gemm.columnCount, lanes.index(1));
  lanes.loop(
      lanes.index(0), lanes.index(blocking.columns()), width, [&](Value group) {
        lanes.loop(firstDepth, endDepth, step, [&](Value k) {
          Value high = lanes.addIndex(k, lanes.index(width));
          SmallVector<SmallVector<Value>> squares(blocking.parts);
          for (int64_t i = 0; i < width; ++i) {
            Value column = lanes.addIndex(
                lanes.addIndex(gemm.tile.firstColumn, group), lanes.index(i));
            // Columns behind the last one repeat it. Nobody reads their sums.
            if (!wholeColumns)
              column = lanes.minIndex(column, lastColumn);
            SmallVector<Value> parts = splitToParts(
                lanes, reader.elements(Value(), column, k, endDepth, whole),
                reader.elements(Value(), column, high, endDepth, whole),
                blocking.parts);
            for (auto [square, part] : llvm::zip_equal(squares, parts))
              square.push_back(part);
          }
          Value first = gemm.words(lanes.subIndex(k, firstDepth));
          for (auto &square : squares)
            square = transpose(lanes, square);
          for (int64_t i = 0; i < width; ++i) {
            SmallVector<Value> parts;
            for (const auto &square : squares)
              parts.push_back(square[i]);
            store(parts, lanes.addIndex(first, lanes.index(i)), group);
          }
        });
      });
}

} // namespace codegen
} // namespace anabranch
