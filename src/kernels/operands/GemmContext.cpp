//===- GemmContext.cpp - what the emitters of a product share -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/GemmContext.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

GemmContext::GemmContext(const Contraction &contraction,
                         const ProductLayout &layout, KernelFunction &function)
    : contraction(contraction), layout(layout), function(function),
      lanes(function.lanes),
      memory(lanes, contraction.element, layout.tiling.lanes) {
  auto product = [&](ArrayRef<unsigned> loops) {
    Value size = lanes.index(1);
    for (unsigned loop : loops)
      size = lanes.mulIndex(size, loopSize(loop));
    return size;
  };
  rowCount = product(contraction.rows);
  batchCount = product(contraction.batch);
  columnCount = loopSize(contraction.column);
  depthCount = loopSize(contraction.depth);
  panelCount =
      lanes.ceilDivIndex(columnCount, lanes.index(layout.tiling.columns()));
  groupCount =
      lanes.ceilDivIndex(panelCount, lanes.index(layout.tiling.panelsPerTile));
  stripCount =
      lanes.ceilDivIndex(rowCount, lanes.index(layout.tiling.rowsPerTile));
}

Value GemmContext::tileCount() {
  return lanes.mulIndex(batchCount, lanes.mulIndex(groupCount, stripCount));
}

Value GemmContext::loopSize(unsigned loop) {
  linalg::GenericOp op = contraction.op;
  for (auto [operand, map] :
       llvm::zip(op->getOperands(), op.getIndexingMapsArray()))
    if (auto position =
            map.getResultPosition(lanes.builder.getAffineDimExpr(loop)))
      return function.dim(operand, *position);
  function.fail(op.getLoc(), "a loop of the contraction has no size");
  return lanes.index(1);
}

Value GemmContext::words(Value depth) {
  return lanes.ceilDivIndex(depth, lanes.index(layout.word.kPack));
}

bool GemmContext::isOneBlock() const {
  auto depth = contraction.knownSize(contraction.depth);
  return depth && *depth <= layout.tiling.depth;
}

bool GemmContext::depthIsMultipleOf(int64_t number) const {
  auto depth = contraction.knownSize(contraction.depth);
  return depth && *depth % number == 0;
}

void GemmContext::enterTile(Value number) {
  Value perTile = lanes.index(layout.tiling.panelsPerTile);
  Value rows = lanes.index(layout.tiling.rowsPerTile);
  tile.firstPanel = lanes.mulIndex(lanes.remIndex(number, groupCount), perTile);
  tile.endPanel =
      lanes.minIndex(lanes.addIndex(tile.firstPanel, perTile), panelCount);
  enterPanel(tile.firstPanel);
  Value rest = lanes.divIndex(number, groupCount);
  tile.firstRow = lanes.mulIndex(lanes.remIndex(rest, stripCount), rows);
  tile.endRow = lanes.minIndex(lanes.addIndex(tile.firstRow, rows), rowCount);
  tile.batch = delinearize(contraction.batch, lanes.divIndex(rest, stripCount));
}

void GemmContext::enterPanel(Value number) {
  tile.firstColumn =
      lanes.mulIndex(number, lanes.index(layout.tiling.columns()));
}

Value GemmContext::endOfRows() {
  const auto &patch = layout.left.patch;
  return patch ? lanes.addIndex(tile.firstRow, lanes.index(patch->numbers()))
               : tile.endRow;
}

Value GemmContext::endOfBlock(Value row) {
  return lanes.minIndex(lanes.addIndex(row, lanes.index(layout.tiling.rows)),
                        endOfRows());
}

void GemmContext::forCopiedRows(
    function_ref<void(Value row, Value from)> body) {
  if (!layout.left.rowElements)
    return lanes.loop(tile.firstRow, tile.endRow, 1,
                      [&](Value row) { body(row, row); });
  Value height = lanes.index(layout.tiling.rows);
  Value blocks =
      lanes.ceilDivIndex(lanes.subIndex(tile.endRow, tile.firstRow), height);
  Value end = lanes.addIndex(tile.firstRow, lanes.mulIndex(blocks, height));
  Value lastRow = lanes.subIndex(tile.endRow, lanes.index(1));
  lanes.loop(tile.firstRow, end, 1,
             [&](Value row) { body(row, lanes.minIndex(row, lastRow)); });
}

SmallVector<Value> GemmContext::delinearize(ArrayRef<unsigned> loops,
                                            Value position) {
  SmallVector<Value> parts(loops.size());
  for (size_t i = loops.size(); i-- > 0;) {
    if (i == 0) {
      parts[i] = position;
      break;
    }
    Value size = loopSize(loops[i]);
    parts[i] = lanes.remIndex(position, size);
    position = lanes.divIndex(position, size);
  }
  return parts;
}

SmallVector<Lanes> GemmContext::point(Value row, Lanes column, Lanes depth) {
  if (!row)
    row = tile.placeRow;
  SmallVector<Value> positions;
  if (row)
    positions = delinearize(contraction.rows, row);
  return point(positions, column, depth);
}

SmallVector<Lanes> GemmContext::point(ArrayRef<Value> row, Lanes column,
                                      Lanes depth) {
  linalg::GenericOp op = contraction.op;
  SmallVector<Lanes> result(op.getNumLoops());
  for (auto [loop, position] : llvm::zip(contraction.batch, tile.batch))
    result[loop] = Lanes::uniform(position);
  // Without a row, these loops have no position.
  if (!row.empty())
    for (auto [loop, position] : llvm::zip(contraction.rows, row))
      result[loop] = Lanes::uniform(position);
  result[contraction.column] = column;
  result[contraction.depth] = depth;
  return result;
}

Value GemmContext::columnMask(Value column, int64_t unit) {
  auto columns = contraction.knownSize(contraction.column);
  if (columns && *columns % unit == 0)
    return Value();
  LaneBuilder::MaskGuard guard(lanes, layout.tiling.lanes, Value());
  Value rest = lanes.subIndex(columnCount, column);
  return lanes.prefixMask(rest);
}

void GemmContext::wholeOrLast(function_ref<void(bool whole)> emit) {
  int64_t width = layout.tiling.columns();
  auto columns = contraction.knownSize(contraction.column);
  if (columns && *columns % width == 0)
    return emit(/*whole=*/true);
  if (columns && *columns < width)
    return emit(/*whole=*/false);
  Value end = lanes.addIndex(tile.firstColumn, lanes.index(width));
  for (bool whole : {true, false}) {
    auto predicate =
        whole ? arith::CmpIPredicate::ule : arith::CmpIPredicate::ugt;
    Value holds = lanes.make<arith::CmpIOp>(predicate, end, columnCount);
    lanes.ifThen(holds, [&] { emit(whole); });
  }
}

} // namespace kernels
} // namespace anabranch
