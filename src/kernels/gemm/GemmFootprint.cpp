//===- GemmFootprint.cpp - what a tile of a product touches ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/GemmFootprint.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The ranges of the contraction's loops in the context's tile.
static SmallVector<IndexRange> loopsOfTile(GemmContext &gemm,
                                           RangeBuilder &ranges) {
  LaneBuilder &lanes = gemm.lanes;
  const Contraction &contraction = gemm.contraction;
  const GemmContext::Tile &tile = gemm.tile;
  SmallVector<IndexRange> loops(
      linalg::GenericOp(contraction.op).getNumLoops());
  for (auto [loop, position] : llvm::zip(contraction.batch, tile.batch))
    loops[loop] = ranges.point(position);
  SmallVector<Value> rowSizes = llvm::map_to_vector(
      contraction.rows, [&](unsigned loop) { return gemm.loopSize(loop); });
  SmallVector<IndexRange> rows =
      ranges.split(ranges.between(tile.firstRow, tile.endRow), rowSizes);
  for (auto [loop, range] : llvm::zip(contraction.rows, rows))
    loops[loop] = range;
  Value endColumn = lanes.minIndex(
      lanes.mulIndex(tile.endPanel, lanes.index(gemm.layout.tiling.columns())),
      gemm.columnCount);
  loops[contraction.column] = ranges.between(tile.firstColumn, endColumn);
  loops[contraction.depth] = ranges.whole(gemm.depthCount);
  return loops;
}

void addGemmFootprint(GemmContext &gemm, TileFootprint &footprint, Value tile) {
  gemm.enterTile(tile);
  RangeBuilder &ranges = footprint.ranges;
  const Contraction &contraction = gemm.contraction;
  SmallVector<IndexRange> loops = loopsOfTile(gemm, ranges);
  linalg::GenericOp op = contraction.op;
  analysis::ReadCollector collector(op.getContext(), op.getNumLoops(),
                                    [](Value) { return false; });
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto visit = [&](unsigned operand) {
    collector.visit(op->getOperand(operand),
                    collector.apply(maps[operand], collector.identity()));
  };
  visit(contraction.left.number);
  visit(contraction.right.number);
  if (!contraction.startsAtZero)
    visit(2);
  footprint.reads(collector.take(), loops);
  SmallVector<IndexRange> product;
  for (AffineExpr expr : maps[2].getResults())
    product.push_back(*ranges.evaluate(expr, loops, {}));
  for (const Epilogue &epilogue : contraction.epilogues)
    footprint.epilogue(epilogue, op.getResult(0), product);
}

} // namespace kernels
} // namespace anabranch
