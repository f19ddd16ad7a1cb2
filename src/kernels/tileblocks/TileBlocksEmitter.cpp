//===- TileBlocksEmitter.cpp - a product's tile in tile registers ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/tileblocks/TileBlocksEmitter.h"

#include "kernels/emit/Memory.h"
#include "kernels/microkernel/WordProduct.h"
#include "kernels/tileblocks/TileBlocking.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

bool depthIsWhole(const GemmContext &gemm) {
  return gemm.depthIsMultipleOf(gemm.layout.stepDepths());
}

Value compare(LaneBuilder &lanes, arith::CmpIPredicate predicate, Value a,
              Value b) {
  return lanes.make<arith::CmpIOp>(predicate, a, b);
}

} // namespace

//===----------------------------------------------------------------------===//
// Scratch memory
//===----------------------------------------------------------------------===//

static int64_t resultElements(const GemmContext &gemm) {
  const ProductLayout &layout = gemm.layout;
  if (gemm.isOneBlock())
    return gemm.layout.tiling.blockElements();
  int64_t panels = layout.steps.depthOutside ? layout.tiling.panelsPerTile : 1;
  return panels * layout.blockedRows() * layout.tiling.columns();
}

int64_t TileBlocksEmitter::sumElements(const GemmContext &gemm) {
  return resultElements(gemm) + GroupSums::elements(gemm);
}

int64_t TileBlocksEmitter::leftTailElements(const GemmContext &gemm) {
  bool needed = !gemm.layout.left.isCopied() && !depthIsWhole(gemm);
  return needed ? gemm.layout.tiling.rowsPerTile * TileBlock::words : 0;
}

int64_t TileBlocksEmitter::rightTailElements(const GemmContext &gemm) {
  bool needed = !gemm.layout.right.isCopied() && !depthIsWhole(gemm);
  return needed ? TileBlock::words * gemm.layout.right.panelWidth : 0;
}

/// Copies the last words of a left operand that is read in place.
void TileBlocksEmitter::copyLeftTail() {
  if (!leftTailElements(gemm))
    return;
  Value size = lanes.index(gemm.layout.stepDepths());
  Value first =
      lanes.subIndex(gemm.depthCount, lanes.remIndex(gemm.depthCount, size));
  lanes.ifThen(
      compare(lanes, arith::CmpIPredicate::ult, first, gemm.depthCount), [&] {
        lanes.loop(lanes.index(0), rowCount, 1, [&](Value row) {
          Value words =
              left.words(row, first, gemm.depthCount, /*whole=*/false);
          gemm.memory.store(words, memory.leftTail,
                            lanes.mulIndex(row, lanes.index(TileBlock::words)));
        });
      });
}

void TileBlocksEmitter::clearRightTail() {
  Value zero = gemm.memory.zeroVector();
  lanes.loop(lanes.index(0), lanes.index(rightTailElements(gemm)),
             gemm.layout.tiling.lanes,
             [&](Value at) { gemm.memory.store(zero, memory.rightTail, at); });
}

/// Copies the last words of a panel that is read in place. Words after the end
/// of the depth stay zero.
void TileBlocksEmitter::copyRightTail(const Depths &depths) {
  if (!rightTailElements(gemm))
    return;
  Value end = gemm.words(depths.count);
  Value first = lanes.mulIndex(
      lanes.divIndex(depths.count, lanes.index(gemm.layout.stepDepths())),
      lanes.index(TileBlock::words));
  Value width = lanes.index(gemm.layout.right.panelWidth);
  lanes.loop(first, end, 1, [&](Value word) {
    Value from = lanes.mulIndex(word, width);
    Value to = lanes.mulIndex(lanes.subIndex(word, first), width);
    for (int64_t j = 0; j < gemm.layout.tiling.vectors; ++j) {
      Value offset = lanes.index(j * gemm.layout.tiling.lanes);
      Value words =
          gemm.memory.loadVector(depths.right, lanes.addIndex(from, offset));
      gemm.memory.store(words, memory.rightTail, lanes.addIndex(to, offset));
    }
  });
}

//===----------------------------------------------------------------------===//
// The loops
//===----------------------------------------------------------------------===//

static TileBlockShape::Product productOf(const GemmContext &gemm) {
  using Product = TileBlockShape::Product;
  if (!gemm.layout.word.holdsBytes())
    return Product::BF16;
  if (gemm.contraction.left.isUnsigned())
    return Product::LeftUnsigned;
  return gemm.contraction.right.isUnsigned() ? Product::RightUnsigned
                                             : Product::Int8;
}

TileBlockShape TileBlocksEmitter::shape() const {
  const ProductLayout &layout = gemm.layout;
  auto rows = gemm.contraction.knownSize(gemm.contraction.rows);
  int64_t most = std::min(rows.value_or(layout.tiling.rowsPerTile),
                          layout.tiling.rowsPerTile);
  if (layout.left.patch)
    most = layout.left.patch->numbers();
  return {productOf(gemm), layout.tiling.vectors,
          /*isTall=*/most > TileBlock::rows / 2,
          /*reusesRight=*/most > TileBlock::rows, layout.tiling.columns(),
          layout.right.panelWidth,
          // The taps of a window share points.
          /*reusesLeft=*/layout.left.patch.has_value(), layout.steps.words};
}

/// Whether an epilogue runs among the steps of the next block. There must be a
/// step. For int8 it gains nothing.
bool TileBlocksEmitter::interleaves() const {
  auto depth = gemm.contraction.knownSize(gemm.contraction.depth);
  // Scaling the sums of groups leaves vector units no time.
  return !gemm.layout.word.holdsBytes() &&
         !gemm.layout.steps.multipliesIntegers() && depth && *depth > 0;
}

/// Whether a part of an epilogue waits for the next panel. If a panel has
/// several blocks of the depth, only the last one completes sums, and vector
/// units would be idle during the others. Sums stay where they are until the
/// next panel's first block of the depth stores its own.
bool TileBlocksEmitter::defers() const {
  return interleaves() && !gemm.isOneBlock() &&
         !gemm.layout.steps.depthOutside &&
         gemm.layout.tiling.panelsPerTile > 1;
}

/// How many of a block's rows do not wait for the next panel.
Value TileBlocksEmitter::promptRows(const Rows &rows) {
  return lanes.ceilDivIndex(rows.count, lanes.index(2));
}

TileBlocksEmitter::Rows TileBlocksEmitter::pendingOf(ValueRange carried) {
  auto index = [&](Value value) {
    return lanes.make<arith::IndexCastOp>(lanes.builder.getIndexType(), value);
  };
  return {index(carried[0]), index(carried[1]), index(carried[2]),
          index(carried[3])};
}

/// Whether the left operand is a copy in parts, other than a patch.
bool TileBlocksEmitter::hasPackedParts() const {
  return gemm.layout.steps.hasParts() && !gemm.layout.left.patch;
}

Value TileBlocksEmitter::leftAt(Value row, Value depth) {
  return left.at(row, depth).pointer;
}

void TileBlocksEmitter::emit(const Scratch &scratch) {
  memory = scratch;
  const GemmContext::Tile &tile = gemm.tile;
  rowCount = gemm.layout.left.patch
                 ? lanes.index(gemm.layout.left.patch->numbers())
                 : lanes.subIndex(tile.endRow, tile.firstRow);
  blockCount = lanes.ceilDivIndex(rowCount, lanes.index(TileBlock::rows));
  blockRows = lanes.ceilDivIndex(rowCount, blockCount);
  Value first = lanes.index(0);
  leftStride =
      hasPackedParts()
          ? lanes.i64(TileBlock::stepBytes)
          : byteDistance(
                lanes, leftAt(tile.firstRow, first),
                leftAt(lanes.addIndex(tile.firstRow, lanes.index(1)), first));
  copyLeftTail();
  clearRightTail();
  if (PartPanels::areFilledAhead(gemm))
    fillFirst();
  if (gemm.layout.steps.multipliesIntegers()) {
    weight = QuantizedOperand::find(gemm.contraction);
    groups.emplace(
        gemm, *weight, left,
        gemm.memory.pointerTo(memory.sums, lanes.index(resultElements(gemm))));
  }
  block.emplace(lanes, shape(), blockRows);
  Carried carried;
  if (interleaves())
    carried.assign(4, lanes.i64(0));
  if (gemm.layout.steps.depthOutside)
    carried =
        forDepths(carried, [&](Value first, Value count, ValueRange rows) {
          if (hasPackedParts())
            left.packParts(first, count);
          return forPanels(rows, [&](Value panel, ValueRange rows) {
            return multiplyPanel(panel, first, count, rows);
          });
        });
  else
    carried = forPanels(carried, [&](Value panel, ValueRange rows) {
      return forDepths(rows, [&](Value first, Value count, ValueRange rows) {
        return multiplyPanel(panel, first, count, rows);
      });
    });
  block->release();
  if (!interleaves())
    return;
  Rows rest = pendingOf(carried);
  evaluate(rest, lanes.index(0), rest.count);
}

TileBlocksEmitter::Carried
TileBlocksEmitter::forPanels(ValueRange carried,
                             function_ref<Carried(Value, ValueRange)> body) {
  const GemmContext::Tile &tile = gemm.tile;
  if (gemm.layout.tiling.panelsPerTile == 1)
    return body(tile.firstPanel, carried);
  return lanes.loop(tile.firstPanel, tile.endPanel, 1, carried,
                    [&](Value panel, ValueRange rows) {
                      gemm.enterPanel(panel);
                      return body(panel, rows);
                    });
}

TileBlocksEmitter::Carried TileBlocksEmitter::forDepths(
    ValueRange carried, function_ref<Carried(Value, Value, ValueRange)> body) {
  Value depthCount = gemm.depthCount;
  if (gemm.isOneBlock())
    return body(lanes.index(0), depthCount, carried);
  int64_t depth = gemm.layout.tiling.depth;
  // A depth of zero runs the loop once too, since the sums must become zero.
  Value end = lanes.maxIndex(depthCount, lanes.index(1));
  return lanes.loop(
      lanes.index(0), end, depth, carried, [&](Value first, ValueRange rows) {
        Value count = lanes.index(depth);
        if (!gemm.depthIsMultipleOf(depth))
          count = lanes.minIndex(lanes.subIndex(depthCount, first), count);
        return body(first, count, rows);
      });
}

/// Multiplies a panel for a part of the depth, one block of rows after the
/// other.
TileBlocksEmitter::Carried
TileBlocksEmitter::multiplyPanel(Value panel, Value first, Value count,
                                 ValueRange carried) {
  const ProductLayout &layout = gemm.layout;
  Depths depths{panel, first, count, lanes.index(0), Value(), Value(), {}};
  if (PartPanels::areFilledAhead(gemm))
    fillAhead(depths, panel);
  else
    depths.right = right.prepare(first, count).pointer;
  copyRightTail(depths);
  if (layout.steps.depthOutside)
    depths.slot = lanes.subIndex(panel, gemm.tile.firstPanel);
  if (fetch.lines && (shape().reusesRight || layout.steps.hasParts())) {
    Value column = gemm.tile.firstColumn;
    Value next = lanes.addIndex(panel, lanes.index(depths.next ? 2 : 1));
    // A worker's next tile mostly begins where this one ends.
    Value last = lanes.subIndex(gemm.panelCount, lanes.index(1));
    gemm.enterPanel(lanes.minIndex(next, last));
    depths.ahead = right.sourceOf(first);
    gemm.tile.firstColumn = column;
  } else if (fetch.lines) {
    depths.ahead = addBytes(lanes, depths.right, lanes.index(fetch.bytesAhead));
  }
  return lanes.loop(lanes.index(0), blockCount, 1, carried,
                    [&](Value number, ValueRange rows) {
                      return multiplyBlock(depths, number, rows);
                    });
}

/// The rows of a block, with those that the block before has as well.
TileBlocksEmitter::Rows TileBlocksEmitter::rowsOf(const Depths &depths,
                                                  Value number) {
  Value start =
      lanes.subIndex(lanes.mulIndex(number, blockRows), repeatedRows(number));
  Value sums = lanes.index(0);
  if (!gemm.isOneBlock()) {
    int64_t perPanel = gemm.layout.blockedRows() / TileBlock::rows;
    Value slot = lanes.addIndex(
        lanes.mulIndex(depths.slot, lanes.index(perPanel)), number);
    sums =
        lanes.mulIndex(slot, lanes.index(gemm.layout.tiling.blockElements()));
  }
  return {blockRows, lanes.addIndex(gemm.tile.firstRow, start),
          gemm.tile.firstColumn, sums};
}

/// How many rows of a block the block before has as well.
Value TileBlocksEmitter::repeatedRows(Value number) {
  Value wanted = lanes.mulIndex(number, blockRows);
  return lanes.subIndex(
      wanted, lanes.minIndex(wanted, lanes.subIndex(rowCount, blockRows)));
}

TileBlocksEmitter::Rows TileBlocksEmitter::withoutFirst(const Rows &rows,
                                                        Value count) {
  Value columns = lanes.index(gemm.layout.tiling.columns());
  return {lanes.subIndex(rows.count, count), lanes.addIndex(rows.row, count),
          rows.column,
          lanes.addIndex(rows.sums, lanes.mulIndex(count, columns))};
}

/// The rows of this block that the panel before left. No block followed its
/// last one, so all rows of that are left.
TileBlocksEmitter::Rows TileBlocksEmitter::deferredRows(const Depths &depths,
                                                        Value number) {
  Rows rows = withoutFirst(rowsOf(depths, number), repeatedRows(number));
  auto choose = [&](Value a, Value b, Value same, Value other) {
    Value isSame = compare(lanes, arith::CmpIPredicate::eq, a, b);
    return lanes.make<arith::SelectOp>(isSame, same, other);
  };
  Value last = lanes.subIndex(blockCount, lanes.index(1));
  Value done = choose(number, last, lanes.index(0), promptRows(rows));
  done = choose(depths.panel, gemm.tile.firstPanel, rows.count, done);
  Rows left = withoutFirst(rows, done);
  left.column =
      lanes.subIndex(left.column, lanes.index(gemm.layout.tiling.columns()));
  return left;
}

/// The rows to evaluate during the steps of a block.
TileBlocksEmitter::Rows TileBlocksEmitter::rowsDuring(const Depths &depths,
                                                      Value number,
                                                      ValueRange carried) {
  Rows rows = pendingOf(carried);
  if (!defers())
    return rows;
  Rows left = deferredRows(depths, number);
  Value isFirst =
      compare(lanes, arith::CmpIPredicate::eq, depths.first, lanes.index(0));
  for (auto part : {&Rows::count, &Rows::row, &Rows::column, &Rows::sums})
    rows.*part = lanes.make<arith::SelectOp>(isFirst, left.*part, rows.*part);
  return rows;
}

TileBlocksEmitter::Carried
TileBlocksEmitter::multiplyBlock(const Depths &depths, Value number,
                                 ValueRange carried) {
  Rows all = rowsOf(depths, number);
  Value at = gemm.memory.pointerTo(memory.sums, all.sums);
  if (groups) {
    multiplyGroups(depths, all.row, at);
  } else {
    block->start(at, compare(lanes, arith::CmpIPredicate::ne, depths.first,
                             lanes.index(0)));
    multiplySteps(depths, all.row, number, carried);
    block->store(at);
  }
  Value end =
      lanes.addIndex(depths.first, lanes.index(gemm.layout.tiling.depth));
  Value isLast =
      gemm.isOneBlock()
          ? lanes.constant(lanes.builder.getBoolAttr(true))
          : compare(lanes, arith::CmpIPredicate::uge, end, gemm.depthCount);
  Rows rows = withoutFirst(all, repeatedRows(number));
  if (!interleaves()) {
    lanes.ifThen(isLast, [&] { evaluate(rows, lanes.index(0), rows.count); });
    return {};
  }
  Value count = rows.count;
  if (defers()) {
    Value next = lanes.addIndex(depths.panel, lanes.index(1));
    Value hasNext =
        compare(lanes, arith::CmpIPredicate::ult, next, gemm.tile.endPanel);
    count = lanes.make<arith::SelectOp>(hasNext, promptRows(rows), count);
  }
  count = lanes.make<arith::SelectOp>(isLast, count, lanes.index(0));
  return {lanes.toI64(count), lanes.toI64(rows.row), lanes.toI64(rows.column),
          lanes.toI64(rows.sums)};
}

/// Multiplies the integers of a weight, one group of depths after the other.
/// The sums of a group are scaled during the products of the next.
void TileBlocksEmitter::multiplyGroups(const Depths &depths, Value row,
                                       Value results) {
  GroupSums::Block sums{row, blockRows, depths.first, results};
  Value zero = lanes.index(0), one = lanes.index(1);
  lanes.ifThen(compare(lanes, arith::CmpIPredicate::eq, depths.first, zero),
               [&] { groups->clearResults(sums); });
  int64_t size = gemm.layout.steps.scaledDepth;
  Value count = lanes.ceilDivIndex(depths.count, lanes.index(size));
  Value end = lanes.addIndex(depths.first, depths.count);
  lanes.loop(zero, count, 1, [&](Value number) {
    Value first =
        lanes.addIndex(depths.first, lanes.mulIndex(number, lanes.index(size)));
    Value next = lanes.addIndex(first, lanes.index(size));
    if (!gemm.depthIsMultipleOf(size))
      next = lanes.minIndex(next, end);
    block->clear();
    lanes.loop(first, next, gemm.layout.stepDepths(),
               [&](Value depth) { multiplyStep(depths, row, depth); });
    block->store(groups->at(number));
    lanes.ifThen(compare(lanes, arith::CmpIPredicate::ne, number, zero),
                 [&] { groups->scale(sums, lanes.subIndex(number, one)); });
  });
  groups->scale(sums, lanes.subIndex(count, one));
}

/// Adds the products of a step of integers.
void TileBlocksEmitter::multiplyStep(const Depths &depths, Value row,
                                     Value depth) {
  Value words = gemm.words(lanes.subIndex(depth, depths.first));
  Value offset = lanes.mulIndex(
      words, lanes.index(gemm.layout.right.panelWidth * wordBytes));
  block->addParts(leftAt(row, depth), leftStride,
                  addBytes(lanes, depths.right, offset), parts());
}

/// Emits the steps of the depth, and among them the epilogue of pending rows.
void TileBlocksEmitter::multiplySteps(const Depths &depths, Value row,
                                      Value number, ValueRange carried) {
  Value words = lanes.index(gemm.layout.steps.words);
  Value count = depths.count;
  if (gemm.layout.left.patch && gemm.layout.left.patch->padsChannels())
    count = lanes.index(gemm.layout.tiling.depth);
  Value steps = lanes.ceilDivIndex(gemm.words(count), words);
  Value wholeSteps =
      lanes.divIndex(depths.count, lanes.index(gemm.layout.stepDepths()));
  // Steps of patches, of parts and of runs are not at equal distances.
  bool isApart =
      gemm.layout.left.patch || gemm.layout.steps.hasParts() ||
      (!gemm.layout.left.isCopied() && gemm.contraction.left.depthRun);
  Value leftFirst = isApart ? Value() : leftAt(row, depths.first);
  Value stepOfRight = lanes.index(gemm.layout.steps.words *
                                  gemm.layout.right.panelWidth * wordBytes);
  Value rowInTile = lanes.subIndex(row, gemm.tile.firstRow);
  Rows waiting;
  Value perStep;
  if (!carried.empty()) {
    waiting = rowsDuring(depths, number, carried);
    perStep = lanes.ceilDivIndex(waiting.count, steps);
  }
  lanes.loop(lanes.index(0), steps, 1, [&](Value step) {
    Value isTail = compare(lanes, arith::CmpIPredicate::uge, step, wholeSteps);
    auto choose = [&](Value tail, Value whole) {
      return lanes.make<arith::SelectOp>(isTail, tail, whole);
    };
    auto along = [&](int64_t ofStep) {
      return lanes.mulIndex(step, lanes.index(ofStep));
    };
    Value leftHere =
        isApart ? leftAt(row, lanes.addIndex(depths.first,
                                             along(gemm.layout.stepDepths())))
                : addBytes(lanes, leftFirst,
                           along(gemm.layout.steps.words * wordBytes));
    Value stride = leftStride;
    if (leftTailElements(gemm)) {
      Value tail = gemm.memory.pointerTo(memory.leftTail,
                                         lanes.mulIndex(rowInTile, words));
      leftHere = choose(tail, leftHere);
      stride = choose(lanes.i64(TileBlock::stepBytes), stride);
    }
    Value rightHere =
        addBytes(lanes, depths.right, lanes.mulIndex(step, stepOfRight));
    if (rightTailElements(gemm))
      rightHere = choose(memory.rightTail, rightHere);
    if (gemm.layout.steps.hasParts())
      block->addParts(leftHere, stride, rightHere, parts());
    else
      block->addWords(leftHere, stride, rightHere);
    if (depths.next)
      PartPanels::fillShare(gemm, *depths.next, step, number, blockCount);
    fetchAhead(depths, step, number);
    fetchSums(depths, step, number);
    if (carried.empty())
      return;
    Value first = lanes.minIndex(lanes.mulIndex(step, perStep), waiting.count);
    evaluate(waiting, first,
             lanes.minIndex(lanes.addIndex(first, perStep), waiting.count));
  });
}

TileBlock::Parts TileBlocksEmitter::parts() const {
  return {gemm.layout.steps.parts, LeftOperand::partBytes(gemm),
          gemm.layout.steps.rightParts(),
          PartPanels::partElements(gemm) * wordBytes};
}

/// Fills the tile's first panel.
void TileBlocksEmitter::fillFirst() {
  Value first = lanes.index(0);
  Value count = gemm.isOneBlock()
                    ? gemm.depthCount
                    : lanes.minIndex(gemm.depthCount,
                                     lanes.index(gemm.layout.tiling.depth));
  PartPanels(gemm, right.memory()).fill(first, lanes.addIndex(first, count));
}

/// Says where a panel was filled, and which one to fill next: that of the same
/// depths, or after the tile's last panel the first one of the next depths. Two
/// panels of the scratch memory take turns.
void TileBlocksEmitter::fillAhead(Depths &depths, Value panel) {
  assert((gemm.layout.steps.depthOutside || gemm.isOneBlock()) &&
         "the next panel has other depths");
  const GemmContext::Tile &tile = gemm.tile;
  Value one = lanes.index(1), depth = lanes.index(gemm.layout.tiling.depth);
  Value before = lanes.addIndex(
      lanes.mulIndex(lanes.divIndex(depths.first, depth),
                     lanes.subIndex(tile.endPanel, tile.firstPanel)),
      lanes.subIndex(panel, tile.firstPanel));
  auto slot = [&](Value number) {
    Value at = lanes.mulIndex(lanes.remIndex(number, lanes.index(2)),
                              lanes.index(PartPanels::panelElements(gemm)));
    return gemm.memory.pointerTo(right.memory(), at);
  };
  depths.right = slot(before);
  Value next = lanes.addIndex(panel, one);
  Value isLast = compare(lanes, arith::CmpIPredicate::uge, next, tile.endPanel);
  auto choose = [&](Value last, Value other) {
    return lanes.make<arith::SelectOp>(isLast, last, other);
  };
  Value first = choose(lanes.addIndex(depths.first, depth), depths.first);
  Value end = lanes.minIndex(lanes.addIndex(first, depth), gemm.depthCount);
  Value column = gemm.tile.firstColumn;
  gemm.enterPanel(choose(tile.firstPanel, next));
  // After the last depth, nothing is filled, and the address is not used.
  Value source = right.sourceOf(
      lanes.minIndex(first, lanes.subIndex(gemm.depthCount, one)));
  gemm.tile.firstColumn = column;
  depths.next = {source, first, end, slot(lanes.addIndex(before, one))};
}

/// Fetches into the second-level cache: a block's share of the next panel's
/// rows for this step, or rows further on in the same panel. A row is a word of
/// each column, or a depth of a panel of floats.
void TileBlocksEmitter::fetchAhead(const Depths &depths, Value step,
                                   Value number) {
  const ProductLayout &layout = gemm.layout;
  if (!depths.ahead)
    return;
  int64_t rowBytes = layout.right.panelWidth * wordBytes;
  int64_t linesOfRow = layout.tiling.vectors, rowsOfStep = layout.steps.words;
  if (layout.steps.hasParts()) {
    const ContractionOperand &operand = gemm.contraction.right;
    rowBytes = operand.panels->width * elementBytes(operand.memory);
    linesOfRow =
        TileBlocking::linesOfRow(gemm.contraction, layout.tiling.columns());
    rowsOfStep = gemm.layout.stepDepths();
  }
  int64_t rows = fetch.lines / linesOfRow;
  Value offset =
      lanes.addIndex(lanes.mulIndex(step, lanes.index(rowsOfStep * rowBytes)),
                     lanes.mulIndex(number, lanes.index(rows * rowBytes)));
  Value first = addBytes(lanes, depths.ahead, offset);
  for (int64_t i = 0; i < fetch.lines; ++i) {
    int64_t at =
        i / linesOfRow * rowBytes + i % linesOfRow * TileBlock::stepBytes;
    lanes.builder.create<LLVM::Prefetch>(
        lanes.loc, addBytes(lanes, first, lanes.index(at)), /*rw=*/0,
        /*hint=*/2,
        /*cache=*/1);
  }
}

/// Fetches a step's share of the next block's sums into the first-level cache.
/// They are [panel][block], so they follow this block's; those after the last
/// block are other scratch memory.
void TileBlocksEmitter::fetchSums(const Depths &depths, Value step,
                                  Value number) {
  const ProductLayout &layout = gemm.layout;
  if (gemm.isOneBlock() || groups)
    return;
  int64_t bytes = layout.tiling.blockElements() * wordBytes;
  int64_t lines = bytes / TileBlock::stepBytes;
  int64_t share = int64_t(llvm::divideCeil(
      lines, std::max<int64_t>(layout.tiling.depth / layout.stepDepths(), 1)));
  Value sums = gemm.memory.pointerTo(memory.sums, rowsOf(depths, number).sums);
  Value first =
      addBytes(lanes, sums,
               lanes.mulIndex(step, lanes.index(share * TileBlock::stepBytes)));
  for (int64_t i = 0; i < share; ++i)
    lanes.builder.create<LLVM::Prefetch>(
        lanes.loc,
        addBytes(lanes, first, lanes.index(bytes + i * TileBlock::stepBytes)),
        /*rw=*/0, /*hint=*/3, /*cache=*/1);
}

/// Evaluates and stores some of the rows whose sums are complete.
void TileBlocksEmitter::evaluate(const Rows &rows, Value first, Value end) {
  Value column = gemm.tile.firstColumn;
  gemm.tile.firstColumn = rows.column;
  Value offset =
      lanes.mulIndex(first, lanes.index(gemm.layout.tiling.columns()));
  epilogue.emit(
      lanes.addIndex(rows.row, first), lanes.addIndex(rows.row, end),
      gemm.memory.pointerTo(memory.sums, lanes.addIndex(rows.sums, offset)));
  gemm.tile.firstColumn = column;
}

} // namespace kernels
} // namespace anabranch
