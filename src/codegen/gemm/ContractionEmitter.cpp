//===- ContractionEmitter.cpp - code of a contraction kernel --------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ContractionEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

ContractionEmitter::ContractionEmitter(const Contraction &contraction,
                                       const ContractionTiling &tiling,
                                       KernelFrame &frame)
    : c(contraction), t(tiling), frame(frame), lanes(frame.lanes) {
  auto product = [&](ArrayRef<unsigned> loops) {
    Value size = lanes.index(1);
    for (unsigned loop : loops)
      size = lanes.mulIndex(size, loopSize(loop));
    return size;
  };
  rowCount = product(c.rows);
  batchCount = product(c.batch);
  columnCount = loopSize(c.column);
  depthCount = loopSize(c.depth);
  panels = lanes.ceilDivIndex(columnCount, lanes.index(t.columns()));
  panelGroups = lanes.ceilDivIndex(panels, lanes.index(t.panelsPerTile));
  strips = lanes.ceilDivIndex(rowCount, lanes.index(t.rowsPerTile));
}

Value ContractionEmitter::loopSize(unsigned loop) {
  linalg::GenericOp op = c.op;
  for (auto [operand, map] :
       llvm::zip(op->getOperands(), op.getIndexingMapsArray()))
    if (auto position =
            map.getResultPosition(lanes.builder.getAffineDimExpr(loop)))
      return frame.dim(operand, *position);
  frame.fail(op.getLoc(), "a loop of the contraction has no size");
  return lanes.index(1);
}

bool ContractionEmitter::isOneBlock() const {
  auto depth = c.knownSize(c.depth);
  return depth && *depth <= t.depth;
}

bool ContractionEmitter::rowsAreWhole() const {
  auto rows = c.knownSize(c.rows);
  return rows && *rows % t.rows == 0;
}

int64_t ContractionEmitter::sumElements() const {
  return (isOneBlock() ? t.rows : t.rowsPerTile) * t.columns();
}

Value ContractionEmitter::leftWords() {
  Value vectors = lanes.ceilDivIndex(depthCount, lanes.index(t.lanes * t.pair));
  return lanes.mulIndex(vectors, lanes.index(t.lanes));
}

Value ContractionEmitter::words(Value depth) {
  return lanes.ceilDivIndex(depth, lanes.index(t.pair));
}

Value ContractionEmitter::tiles() {
  return lanes.mulIndex(batchCount, lanes.mulIndex(panelGroups, strips));
}

Value ContractionEmitter::scratchBytes() {
  Value elements = lanes.index(sumElements() + startElements() +
                               (t.copiesRight() ? panelElements() : 0));
  if (t.packLeft)
    elements = lanes.addIndex(
        elements, lanes.mulIndex(lanes.index(t.rowsPerTile), leftWords()));
  return lanes.mulIndex(elements, lanes.index(elementBytes(c.element)));
}

//===----------------------------------------------------------------------===//
// Indices and memory
//===----------------------------------------------------------------------===//

/// Splits a position over several loops, the last of which runs fastest.
SmallVector<Value> ContractionEmitter::delinearize(ArrayRef<unsigned> loops,
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

/// A point of the contraction's iteration space; a null row or lane stays
/// undefined.
SmallVector<Lanes> ContractionEmitter::point(Value row, Lanes column,
                                             Lanes depth) {
  linalg::GenericOp op = c.op;
  SmallVector<Lanes> result(op.getNumLoops());
  for (auto [loop, position] : llvm::zip(c.batch, place.batch))
    result[loop] = Lanes::uniform(position);
  if (row)
    for (auto [loop, position] : llvm::zip(c.rows, delinearize(c.rows, row)))
      result[loop] = Lanes::uniform(position);
  result[c.column] = column;
  result[c.depth] = depth;
  return result;
}

Lanes ContractionEmitter::stored(const ContractionOperand &operand,
                                 ArrayRef<Lanes> point) {
  linalg::GenericOp op = c.op;
  AffineMap map = op.getIndexingMapsArray()[operand.number];
  return evaluator->evaluate(op->getOperand(operand.number),
                             evaluator->apply(map, point));
}

Lanes ContractionEmitter::element(const ContractionOperand &operand,
                                  ArrayRef<Lanes> point) {
  Lanes value = stored(operand, point);
  if (!operand.cast)
    return value;
  if (laneType(value.value).isBF16() && c.element.isF32())
    return lanes.wrap(extendBF16(lanes, value.value));
  Type type = value.isVarying() ? lanes.vectorType(c.element) : c.element;
  if (isa<arith::ExtSIOp>(operand.cast))
    return lanes.wrap(lanes.make<arith::ExtSIOp>(type, value.value));
  if (isa<arith::ExtUIOp>(operand.cast))
    return lanes.wrap(lanes.make<arith::ExtUIOp>(type, value.value));
  return lanes.wrap(lanes.make<arith::ExtFOp>(type, value.value));
}

Value ContractionEmitter::pointerTo(Value memory, Value offset) {
  Type pointer = LLVM::LLVMPointerType::get(lanes.builder.getContext());
  return lanes.make<LLVM::GEPOp>(pointer, c.element, memory,
                                 ArrayRef<LLVM::GEPArg>{lanes.toI64(offset)});
}

Value ContractionEmitter::loadVector(Value memory, Value offset) {
  auto type = VectorType::get({t.lanes}, c.element);
  return lanes.builder.create<LLVM::LoadOp>(
      lanes.loc, type, pointerTo(memory, offset), elementBytes(c.element));
}

void ContractionEmitter::storeVector(Value vector, Value memory, Value offset) {
  lanes.builder.create<LLVM::StoreOp>(
      lanes.loc, vector, pointerTo(memory, offset), elementBytes(c.element));
}

//===----------------------------------------------------------------------===//
// The tile
//===----------------------------------------------------------------------===//

void ContractionEmitter::findPlace(Value tile) {
  Value perTile = lanes.index(t.panelsPerTile);
  place.firstPanel = lanes.mulIndex(lanes.remIndex(tile, panelGroups), perTile);
  place.endPanel =
      lanes.minIndex(lanes.addIndex(place.firstPanel, perTile), panels);
  place.firstColumn =
      lanes.mulIndex(place.firstPanel, lanes.index(t.columns()));
  Value rest = lanes.divIndex(tile, panelGroups);
  place.firstRow =
      lanes.mulIndex(lanes.remIndex(rest, strips), lanes.index(t.rowsPerTile));
  place.endRow = lanes.minIndex(
      lanes.addIndex(place.firstRow, lanes.index(t.rowsPerTile)), rowCount);
  place.batch = delinearize(c.batch, lanes.divIndex(rest, strips));
}

void ContractionEmitter::emitTile(Evaluator &tileEvaluator, Value scratch,
                                  Value tile) {
  evaluator = &tileEvaluator;
  findPlace(tile);
  sumMemory = scratch;
  startMemory = pointerTo(scratch, lanes.index(sumElements()));
  panelMemory = pointerTo(startMemory, lanes.index(startElements()));
  leftMemory = panelMemory;
  if (t.copiesRight())
    leftMemory = pointerTo(panelMemory, lanes.index(panelElements()));
  if (t.packLeft)
    packLeft();
  if (t.needsStarts())
    storeStarts();
  if (t.right == ContractionTiling::Right::Rows)
    return multiplyRows();
  if (t.tiles) {
    createTiles();
    TileBlock::begin(lanes, tileFunctions);
  }
  if (t.panelsPerTile == 1)
    multiplyPanel();
  else
    lanes.loop(place.firstPanel, place.endPanel, 1, [&](Value panel) {
      place.firstColumn = lanes.mulIndex(panel, lanes.index(t.columns()));
      multiplyPanel();
    });
  if (t.tiles)
    TileBlock::end(lanes);
}

/// A panel of a tile, one block of the depth after the other.
void ContractionEmitter::multiplyPanel() {
  auto block = [&](Value firstDepth, Value depth) {
    if (t.right == ContractionTiling::Right::Pack)
      c.right.windowRow ? packWindows(firstDepth, depth)
                        : packRight(firstDepth, depth);
    if (t.right == ContractionTiling::Right::PackTransposed)
      packRightTransposed(firstDepth, depth);
    Value right = panelMemory;
    Value rightStep;
    if (!t.copiesRight())
      std::tie(right, rightStep) = rightInPlace(firstDepth);
    lanes.loop(place.firstRow, place.endRow, t.rows, [&](Value row) {
      Value sums = sumMemory;
      if (!isOneBlock())
        sums = pointerTo(sumMemory,
                         lanes.mulIndex(lanes.subIndex(row, place.firstRow),
                                        lanes.index(t.columns())));
      multiplyBlock(row, sums, right, rightStep, firstDepth, depth);
      if (isOneBlock())
        return emitEpilogue(row, sums);
      Value end = lanes.addIndex(firstDepth, lanes.index(t.depth));
      Value isLast =
          lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sge, end, depthCount);
      lanes.ifThen(isLast, [&] { emitEpilogue(row, sums); });
    });
  };
  if (isOneBlock())
    return block(lanes.index(0), depthCount);
  // A depth of zero takes one turn too: the sums are zero then.
  Value end = lanes.maxIndex(depthCount, lanes.index(1));
  lanes.loop(lanes.index(0), end, t.depth, [&](Value firstDepth) {
    block(firstDepth, lanes.minIndex(lanes.subIndex(depthCount, firstDepth),
                                     lanes.index(t.depth)));
  });
}

//===----------------------------------------------------------------------===//
// The epilogue
//===----------------------------------------------------------------------===//

/// Evaluates and stores what the kernel returns for a block of rows, whose sums
/// lie in memory.
void ContractionEmitter::emitEpilogue(Value row, Value sums) {
  linalg::GenericOp op = c.op;
  Value endRow =
      lanes.minIndex(lanes.addIndex(row, lanes.index(t.rows)), place.endRow);
  Value width = lanes.minIndex(lanes.subIndex(columnCount, place.firstColumn),
                               lanes.index(t.columns()));
  Value product = op.getResult(0);
  lanes.loop(row, endRow, 1, [&](Value current) {
    lanes.loop(lanes.index(0), width, t.lanes, [&](Value offset) {
      Value column = lanes.addIndex(place.firstColumn, offset);
      LaneBuilder::MaskGuard guard(lanes, t.lanes, columnMask(column, t.lanes));
      SmallVector<Lanes> position =
          point(current, Lanes::linear(column, 1, t.lanes), Lanes());
      SmallVector<Lanes> index =
          evaluator->apply(op.getIndexingMapsArray()[2], position);
      Value at = lanes.mulIndex(lanes.subIndex(current, row),
                                lanes.index(t.columns()));
      Value sum = loadVector(sums, lanes.addIndex(at, offset));
      if (!c.startsAtZero) {
        Lanes init = evaluator->evaluate(op.getDpsInits()[0], index);
        sum = isa<FloatType>(c.element)
                  ? lanes.make<arith::AddFOp>(sum, lanes.vector(init))
                  : lanes.make<arith::AddIOp>(sum, lanes.vector(init));
      }
      evaluator->bind(product,
                      [sum](ArrayRef<Lanes>) { return Lanes::varying(sum); });
      for (const Epilogue &epilogue : c.epilogues)
        epilogue.emit(*evaluator, index);
    });
  });
}

} // namespace codegen
} // namespace anabranch
