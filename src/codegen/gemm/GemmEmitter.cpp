//===- GemmEmitter.cpp - the loops of a product's tile --------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/GemmEmitter.h"

#include "codegen/gemm/RowDots.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

//===----------------------------------------------------------------------===//
// Scratch memory
//===----------------------------------------------------------------------===//

int64_t GemmEmitter::sumElements() const {
  const GemmBlocking &blocking = gemm.blocking;
  int64_t rows = gemm.isOneBlock() ? blocking.rows : blocking.rowsPerTile;
  return rows * blocking.columns();
}

int64_t GemmEmitter::compensationElements() const {
  return gemm.blocking.needsCompensation() ? gemm.blocking.rowsPerTile : 0;
}

int64_t GemmEmitter::panelElements() const {
  const GemmBlocking &blocking = gemm.blocking;
  if (!blocking.copiesRight())
    return 0;
  return blocking.depth / blocking.kPack * blocking.columns();
}

Value GemmEmitter::scratchBytes() {
  Value elements =
      lanes.index(sumElements() + compensationElements() + panelElements());
  if (gemm.blocking.packLeft)
    elements = lanes.addIndex(
        elements, lanes.mulIndex(lanes.index(gemm.blocking.rowsPerTile),
                                 LeftOperand::packedWords(gemm)));
  return lanes.mulIndex(elements, lanes.index(gemm.memory.elementBytes()));
}

GemmEmitter::Scratch GemmEmitter::layOut(Value scratch) {
  auto behind = [&](Value memory, int64_t elements) {
    return gemm.memory.pointerTo(memory, lanes.index(elements));
  };
  Scratch parts;
  parts.sums = scratch;
  parts.compensation = behind(scratch, sumElements());
  parts.panel = behind(parts.compensation, compensationElements());
  parts.left = behind(parts.panel, panelElements());
  return parts;
}

//===----------------------------------------------------------------------===//
// The tile
//===----------------------------------------------------------------------===//

void GemmEmitter::emitTile(Evaluator &evaluator, Value scratch, Value tile) {
  gemm.evaluator = &evaluator;
  gemm.enterTile(tile);
  Scratch memory = layOut(scratch);
  LeftOperand left(gemm, memory.left);
  Compensation compensation(gemm, left, memory.compensation);
  left.pack();
  compensation.compute();
  if (gemm.blocking.right == GemmBlocking::Right::RowDots) {
    RowDots(gemm, left, compensation).multiply(memory.sums);
    return emitEpilogue(gemm.tile.firstRow, memory.sums);
  }
  RightPanels right(gemm, memory.panel);
  BlockMultiplier multiplier(gemm, left, compensation);
  multiplier.begin();
  if (gemm.blocking.panelsPerTile == 1)
    multiplyPanel(multiplier, right, memory.sums);
  else
    lanes.loop(gemm.tile.firstPanel, gemm.tile.endPanel, 1, [&](Value panel) {
      gemm.enterPanel(panel);
      multiplyPanel(multiplier, right, memory.sums);
    });
  multiplier.end();
}

/// A panel of a tile, one block of the depth after the other.
void GemmEmitter::multiplyPanel(BlockMultiplier &multiplier, RightPanels &right,
                                Value sums) {
  Value depthCount = gemm.depthCount;
  if (gemm.isOneBlock())
    return multiplyDepths(multiplier, right, sums, lanes.index(0), depthCount);
  int64_t depth = gemm.blocking.depth;
  // A depth of zero takes one turn too: the sums are zero then.
  Value end = lanes.maxIndex(depthCount, lanes.index(1));
  lanes.loop(lanes.index(0), end, depth, [&](Value first) {
    multiplyDepths(
        multiplier, right, sums, first,
        lanes.minIndex(lanes.subIndex(depthCount, first), lanes.index(depth)));
  });
}

/// A panel of a tile for some of the depth, one block of rows after the other.
void GemmEmitter::multiplyDepths(BlockMultiplier &multiplier,
                                 RightPanels &right, Value sums, Value first,
                                 Value count) {
  const GemmBlocking &blocking = gemm.blocking;
  const GemmContext::Tile &tile = gemm.tile;
  OperandReader::Address panel = right.prepare(first, count);
  lanes.loop(tile.firstRow, tile.endRow, blocking.rows, [&](Value row) {
    if (gemm.isOneBlock()) {
      multiplier.multiply({row, sums, panel, first, count});
      return emitEpilogue(row, sums);
    }
    // Sums of all rows wait for the next block of the depth.
    Value offset = lanes.mulIndex(lanes.subIndex(row, tile.firstRow),
                                  lanes.index(blocking.columns()));
    Value rowSums = gemm.memory.pointerTo(sums, offset);
    multiplier.multiply({row, rowSums, panel, first, count});
    Value end = lanes.addIndex(first, lanes.index(blocking.depth));
    Value isLast = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, end,
                                             gemm.depthCount);
    lanes.ifThen(isLast, [&] { emitEpilogue(row, rowSums); });
  });
}

//===----------------------------------------------------------------------===//
// The epilogue
//===----------------------------------------------------------------------===//

/// The sum plus what the product is added to.
Value GemmEmitter::addInitial(Value sum, ArrayRef<Lanes> index) {
  const Contraction &contraction = gemm.contraction;
  if (contraction.startsAtZero)
    return sum;
  linalg::GenericOp op = contraction.op;
  Lanes initial = gemm.evaluator->evaluate(op.getDpsInits()[0], index);
  if (isa<FloatType>(contraction.element))
    return lanes.make<arith::AddFOp>(sum, lanes.vector(initial));
  return lanes.make<arith::AddIOp>(sum, lanes.vector(initial));
}

/// Evaluates and stores what the kernel returns for a block of rows, whose sums
/// lie in memory.
void GemmEmitter::emitEpilogue(Value row, Value sums) {
  const GemmBlocking &blocking = gemm.blocking;
  Evaluator &evaluator = *gemm.evaluator;
  linalg::GenericOp op = gemm.contraction.op;
  Value panelColumns = lanes.index(blocking.columns());
  Value endRow = lanes.minIndex(lanes.addIndex(row, lanes.index(blocking.rows)),
                                gemm.tile.endRow);
  Value firstColumn = gemm.tile.firstColumn;
  Value width = lanes.minIndex(lanes.subIndex(gemm.columnCount, firstColumn),
                               panelColumns);
  auto emitVector = [&](Value current, Value offset) {
    Value column = lanes.addIndex(firstColumn, offset);
    LaneBuilder::MaskGuard guard(lanes, blocking.lanes,
                                 gemm.columnMask(column, blocking.lanes));
    SmallVector<Lanes> position =
        gemm.point(current, Lanes::linear(column, 1, blocking.lanes), Lanes());
    SmallVector<Lanes> index =
        evaluator.apply(op.getIndexingMapsArray()[2], position);
    Value at = lanes.mulIndex(lanes.subIndex(current, row), panelColumns);
    Value sum = addInitial(
        gemm.memory.loadVector(sums, lanes.addIndex(at, offset)), index);
    evaluator.bind(op.getResult(0),
                   [sum](ArrayRef<Lanes>) { return Lanes::varying(sum); });
    for (const Epilogue &epilogue : gemm.contraction.epilogues)
      epilogue.emit(evaluator, index);
  };
  lanes.loop(row, endRow, 1, [&](Value current) {
    lanes.loop(lanes.index(0), width, blocking.lanes,
               [&](Value offset) { emitVector(current, offset); });
  });
}

} // namespace codegen
} // namespace anabranch
