//===- GemmEmitter.cpp - the loops of a product's tile --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/GemmEmitter.h"

#include "kernels/gemm/RowDots.h"
#include "kernels/gemm/RowSums.h"
#include "kernels/operands/PartPanels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

//===----------------------------------------------------------------------===//
// Scratch memory
//===----------------------------------------------------------------------===//

int64_t GemmEmitter::sumElements() const {
  const GemmBlocking &blocking = gemm.blocking;
  if (blocking.usesAmx)
    return AmxEmitter::sumElements(gemm);
  if (blocking.right == GemmBlocking::Right::RowSums)
    return RowSums::sumElements(blocking);
  int64_t rows = gemm.isOneBlock() ? blocking.rows : blocking.blockedRows();
  return rows * blocking.columns();
}

int64_t GemmEmitter::compensationElements() const {
  return gemm.blocking.needsCompensation() ? gemm.blocking.rowsPerTile : 0;
}

int64_t GemmEmitter::panelElements() const {
  const GemmBlocking &blocking = gemm.blocking;
  if (!blocking.copiesRight())
    return 0;
  if (blocking.hasParts())
    return PartPanels::scratchElements(gemm);
  // Some copies write whole vectors along the depth.
  int64_t depth =
      int64_t(llvm::alignTo(blocking.depth, blocking.lanes * blocking.kPack));
  return depth / blocking.kPack * blocking.columns();
}

Value GemmEmitter::scratchBytes() {
  int64_t known = sumElements() + compensationElements() + panelElements();
  if (gemm.blocking.usesAmx)
    known += AmxEmitter::leftTailElements(gemm) +
             AmxEmitter::rightTailElements(gemm);
  Value elements =
      lanes.addIndex(lanes.index(known), LeftOperand::scratchElements(gemm));
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
  if (gemm.blocking.usesAmx) {
    parts.leftTail = parts.left;
    parts.rightTail =
        behind(parts.leftTail, AmxEmitter::leftTailElements(gemm));
    parts.left = behind(parts.rightTail, AmxEmitter::rightTailElements(gemm));
  }
  return parts;
}

//===----------------------------------------------------------------------===//
// The tile
//===----------------------------------------------------------------------===//

void GemmEmitter::emitTile(Evaluator &evaluator, Value scratch, Value tile) {
  gemm.evaluator = &evaluator;
  gemm.enterTile(tile);
  Scratch memory = layOut(scratch);
  if (gemm.contraction.isGrouped)
    return forEachGroup([&] { emitRows(memory); });
  findPlace();
  emitRows(memory);
}

/// The address at which the right operand of a row begins in the tile.
Value GemmEmitter::placeOf(Value row) {
  gemm.tile.placeRow = row;
  OperandReader right(gemm, gemm.contraction.right);
  // The load is dead code, which LLVM removes.
  return right.findAddress(gemm.point(Value(),
                                      Lanes::uniform(gemm.tile.firstColumn),
                                      Lanes::uniform(lanes.index(0))));
}

/// Computes and checks the place of a gathered operand before the loops that
/// read there.
void GemmEmitter::findPlace() {
  if (gemm.contraction.right.isGathered)
    placeOf(gemm.tile.placeRow);
}

/// Neighbouring rows whose right operand has the same address form a group. Dot
/// products take some rows of it at a time.
void GemmEmitter::forEachGroup(function_ref<void()> body) {
  GemmContext::Tile whole = gemm.tile;
  Value one = lanes.index(1);
  bool takesDots = gemm.blocking.right == GemmBlocking::Right::RowDots;
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) {
    return lanes.make<arith::CmpIOp>(predicate, a, b);
  };
  auto either = [&](Value a, Value b) {
    return lanes.make<arith::OrIOp>(a, b);
  };
  // LLVM has no loop-carried index, so the loop carries it as i64.
  lanes.loop(whole.firstRow, whole.endRow, 1, lanes.toI64(whole.firstRow),
             [&](Value row, ValueRange carried) -> SmallVector<Value> {
               Value first = lanes.make<arith::IndexCastOp>(
                   lanes.builder.getIndexType(), carried[0]);
               Value next = lanes.addIndex(row, one);
               Value last = lanes.subIndex(whole.endRow, one);
               Value step = byteDistance(lanes, placeOf(row),
                                         placeOf(lanes.minIndex(next, last)));
               Value ends = either(
                   compare(arith::CmpIPredicate::eq, row, last),
                   compare(arith::CmpIPredicate::ne, step, lanes.i64(0)));
               if (takesDots)
                 ends = either(ends, compare(arith::CmpIPredicate::eq,
                                             lanes.subIndex(next, first),
                                             lanes.index(gemm.blocking.rows)));
               lanes.ifThen(ends, [&] {
                 gemm.tile.firstRow = gemm.tile.placeRow = first;
                 gemm.tile.endRow = next;
                 findPlace();
                 body();
               });
               return {lanes.make<arith::SelectOp>(ends, lanes.toI64(next),
                                                   carried[0])};
             });
  gemm.tile = whole;
}

/// Emits rows of the tile that share a right operand.
void GemmEmitter::emitRows(const Scratch &memory) {
  LeftOperand left(gemm, memory.left);
  Compensation compensation(gemm, left, memory.compensation);
  left.pack();
  compensation.compute();
  if (!gemm.blocking.hasBlocks()) {
    if (gemm.blocking.right == GemmBlocking::Right::RowDots)
      RowDots(gemm, left, compensation).multiply(memory.sums);
    else
      RowSums(gemm, left).multiply(memory.sums);
    return epilogue.emit(gemm.tile.firstRow, endOfBlock(gemm.tile.firstRow),
                         memory.sums);
  }
  RightPanels right(gemm, memory.panel);
  if (gemm.blocking.usesAmx)
    return AmxEmitter(gemm, left, right, epilogue)
        .emit({memory.sums, memory.leftTail, memory.rightTail});
  BlockMultiplier multiplier(gemm, left, compensation);
  if (gemm.blocking.panelsPerTile == 1)
    multiplyPanel(multiplier, right, memory.sums);
  else
    lanes.loop(gemm.tile.firstPanel, gemm.tile.endPanel, 1, [&](Value panel) {
      gemm.enterPanel(panel);
      multiplyPanel(multiplier, right, memory.sums);
    });
}

/// The end of the tile's rows, as blocks number them.
Value GemmEmitter::endOfRows() {
  const auto &patch = gemm.blocking.patch;
  return patch
             ? lanes.addIndex(gemm.tile.firstRow, lanes.index(patch->numbers()))
             : gemm.tile.endRow;
}

/// The end of the block of rows that begins at `row`.
Value GemmEmitter::endOfBlock(Value row) {
  return lanes.minIndex(lanes.addIndex(row, lanes.index(gemm.blocking.rows)),
                        endOfRows());
}

/// Multiplies a panel of a tile, one block of the depth after the other.
void GemmEmitter::multiplyPanel(BlockMultiplier &multiplier, RightPanels &right,
                                Value sums) {
  Value depthCount = gemm.depthCount;
  if (gemm.isOneBlock())
    return multiplyDepths(multiplier, right, sums, lanes.index(0), depthCount);
  int64_t depth = gemm.blocking.depth;
  // A depth of zero runs the loop once too, since the sums must become zero.
  Value end = lanes.maxIndex(depthCount, lanes.index(1));
  lanes.loop(lanes.index(0), end, depth, [&](Value first) {
    multiplyDepths(
        multiplier, right, sums, first,
        lanes.minIndex(lanes.subIndex(depthCount, first), lanes.index(depth)));
  });
}

/// Multiplies a panel of a tile for a part of the depth, one block of rows
/// after the other.
void GemmEmitter::multiplyDepths(BlockMultiplier &multiplier,
                                 RightPanels &right, Value sums, Value first,
                                 Value count) {
  const GemmBlocking &blocking = gemm.blocking;
  const GemmContext::Tile &tile = gemm.tile;
  OperandReader::Address panel = right.prepare(first, count);
  Value columns = lanes.index(blocking.columns());
  lanes.loop(tile.firstRow, endOfRows(), blocking.rows, [&](Value row) {
    // The last block of a patch, whose rows are all there, repeats some.
    Value start = row;
    if (blocking.patch)
      start = lanes.minIndex(
          row, lanes.subIndex(endOfRows(), lanes.index(blocking.rows)));
    Value repeated = lanes.mulIndex(lanes.subIndex(row, start), columns);
    if (gemm.isOneBlock()) {
      multiplier.multiply({start, sums, panel, first, count});
      return epilogue.emit(row, endOfBlock(row),
                           gemm.memory.pointerTo(sums, repeated));
    }
    // The sums of all rows wait for the next block of the depth.
    Value offset = lanes.mulIndex(lanes.subIndex(row, tile.firstRow), columns);
    Value rowSums = gemm.memory.pointerTo(sums, offset);
    multiplier.multiply({start, rowSums, panel, first, count});
    Value end = lanes.addIndex(first, lanes.index(blocking.depth));
    Value isLast = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, end,
                                             gemm.depthCount);
    lanes.ifThen(isLast, [&] {
      epilogue.emit(row, endOfBlock(row),
                    gemm.memory.pointerTo(rowSums, repeated));
    });
  });
}

} // namespace kernels
} // namespace anabranch
