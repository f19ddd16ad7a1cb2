//===- BlockLoops.cpp - loops over blocks in vector registers -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/BlockLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static int64_t sumElements(const GemmContext &gemm) {
  const Tiling &tiling = gemm.layout.tiling;
  int64_t rows = gemm.isOneBlock() ? tiling.rows : gemm.layout.blockedRows();
  return rows * tiling.columns();
}

int64_t BlockLoops::scratchElements(const GemmContext &gemm) {
  return sumElements(gemm) + Compensation::scratchElements(gemm) +
         RightPanels::scratchElements(gemm);
}

void BlockLoops::emit(ScratchMemory memory) {
  Value sums = memory.take(sumElements(gemm));
  Value numbers = memory.take(Compensation::scratchElements(gemm));
  Value panel = memory.take(RightPanels::scratchElements(gemm));
  LeftOperand left(gemm, memory.rest());
  Compensation compensation(gemm, left, numbers);
  left.pack();
  compensation.compute();
  RightPanels right(gemm, panel);
  BlockMultiplier multiplier(gemm, left, compensation, bytesAhead);
  if (gemm.layout.tiling.panelsPerTile == 1)
    return multiplyPanel(multiplier, right, sums);
  lanes.loop(gemm.tile.firstPanel, gemm.tile.endPanel, 1, [&](Value number) {
    gemm.enterPanel(number);
    multiplyPanel(multiplier, right, sums);
  });
}

/// Multiplies a panel of a tile, one block of the depth after the other.
void BlockLoops::multiplyPanel(BlockMultiplier &multiplier, RightPanels &right,
                               Value sums) {
  Value depthCount = gemm.depthCount;
  if (gemm.isOneBlock())
    return multiplyDepths(multiplier, right, sums, lanes.index(0), depthCount);
  int64_t depth = gemm.layout.tiling.depth;
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
void BlockLoops::multiplyDepths(BlockMultiplier &multiplier, RightPanels &right,
                                Value sums, Value first, Value count) {
  const ProductLayout &layout = gemm.layout;
  const GemmContext::Tile &tile = gemm.tile;
  OperandReader::Address panel = right.prepare(first, count);
  Value columns = lanes.index(layout.tiling.columns());
  lanes.loop(
      tile.firstRow, gemm.endOfRows(), layout.tiling.rows, [&](Value row) {
        // The last block of a patch, whose rows are all there, repeats some.
        Value start = row;
        if (layout.left.patch)
          start = lanes.minIndex(
              row, lanes.subIndex(gemm.endOfRows(),
                                  lanes.index(layout.tiling.rows)));
        Value repeated = lanes.mulIndex(lanes.subIndex(row, start), columns);
        if (gemm.isOneBlock()) {
          multiplier.multiply({start, sums, panel, first, count});
          return epilogue.emit(row, gemm.endOfBlock(row),
                               gemm.memory.pointerTo(sums, repeated));
        }
        // The sums of all rows wait for the next block of the depth.
        Value offset =
            lanes.mulIndex(lanes.subIndex(row, tile.firstRow), columns);
        Value rowSums = gemm.memory.pointerTo(sums, offset);
        multiplier.multiply({start, rowSums, panel, first, count});
        Value end = lanes.addIndex(first, lanes.index(layout.tiling.depth));
        Value isLast = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, end,
                                                 gemm.depthCount);
        lanes.ifThen(isLast, [&] {
          epilogue.emit(row, gemm.endOfBlock(row),
                        gemm.memory.pointerTo(rowSums, repeated));
        });
      });
}

} // namespace kernels
} // namespace anabranch
