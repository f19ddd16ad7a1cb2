//===- ContractionReach.cpp - what a tile of a contraction touches --------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/footprint/TileFootprint.h"
#include "codegen/gemm/ContractionEmitter.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

void ContractionEmitter::emitFootprint(TileFootprint &footprint, Value tile) {
  findPlace(tile);
  RangeBuilder &ranges = footprint.ranges;
  linalg::GenericOp op = c.op;
  SmallVector<IndexRange> loops(op.getNumLoops());
  for (auto [loop, position] : llvm::zip(c.batch, place.batch))
    loops[loop] = ranges.point(position);
  SmallVector<Value> rowSizes = llvm::map_to_vector(
      c.rows, [&](unsigned loop) { return loopSize(loop); });
  SmallVector<IndexRange> rows =
      ranges.split(ranges.between(place.firstRow, place.endRow), rowSizes);
  for (auto [loop, range] : llvm::zip(c.rows, rows))
    loops[loop] = range;
  Value endColumn = lanes.minIndex(
      lanes.mulIndex(place.endPanel, lanes.index(t.columns())), columnCount);
  loops[c.column] = ranges.between(place.firstColumn, endColumn);
  loops[c.depth] = ranges.whole(depthCount);

  analysis::ReadCollector collector(op.getContext(), op.getNumLoops(),
                                    [](Value) { return false; });
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  auto visit = [&](unsigned operand) {
    collector.visit(op->getOperand(operand),
                    collector.apply(maps[operand], collector.identity()));
  };
  visit(c.left.number);
  visit(c.right.number);
  if (!c.startsAtZero)
    visit(2);
  footprint.reads(collector.take(), loops);
  SmallVector<IndexRange> product;
  for (AffineExpr expr : maps[2].getResults())
    product.push_back(*ranges.evaluate(expr, loops, {}));
  for (const Epilogue &epilogue : c.epilogues)
    footprint.epilogue(epilogue, op.getResult(0), product);
}

} // namespace codegen
} // namespace anabranch
