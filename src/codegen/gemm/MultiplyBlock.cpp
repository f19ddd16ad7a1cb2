//===- MultiplyBlock.cpp - calls of a contraction's micro-kernel ----------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/ContractionEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

bool ContractionEmitter::leftStepIsUnit() const {
  return t.packLeft || c.left.unitLoop == c.depth;
}

/// Vectors of the last panel that have columns; all of them where that is not
/// known.
int64_t ContractionEmitter::lastVectors() const {
  auto columns = c.knownSize(c.column);
  int64_t rest = columns ? *columns % t.columns() : 0;
  return rest ? (rest + t.lanes - 1) / t.lanes : t.vectors;
}

MicroKernel ContractionEmitter::microKernel(int64_t vectors) const {
  MicroKernel kernel{c.element,    t.lanes,        t.rows,
                     vectors,      t.columns(),    std::nullopt,
                     std::nullopt, t.rightElement, t.pair == 2};
  if (t.multipliesBytes())
    kernel.bytes = t.bytes;
  if (leftStepIsUnit())
    kernel.leftStep = 1;
  if (t.right != ContractionTiling::Right::InPlace)
    kernel.rightStep = t.panelWidth;
  if (t.right == ContractionTiling::Right::Prepacked)
    kernel.ahead = t.bytesAhead;
  return kernel;
}

/// Where an element was loaded from that is a plain load.
Value ContractionEmitter::addressOf(Lanes loaded) {
  Value value = loaded.value;
  if (auto cast = value.getDefiningOp<arith::BitcastOp>())
    value = cast.getIn();
  if (auto load = value.getDefiningOp<LLVM::LoadOp>())
    return load.getAddr();
  frame.fail(lanes.loc, "operand of a contraction is no plain memory");
  return panelMemory;
}

/// The bytes from one address to another.
static Value distance(LaneBuilder &lanes, Value from, Value to) {
  Type i64 = lanes.builder.getI64Type();
  Value a = lanes.make<LLVM::PtrToIntOp>(i64, from);
  Value b = lanes.make<LLVM::PtrToIntOp>(i64, to);
  return lanes.make<arith::SubIOp>(b, a);
}

/// The address of a row at a depth, and the step along the depth.
std::pair<Value, Value> ContractionEmitter::leftInPlace(Value row,
                                                        Value firstDepth) {
  auto at = [&](Value depth) {
    return addressOf(
        stored(c.left, point(row, Lanes(), Lanes::uniform(depth))));
  };
  Value first = at(firstDepth);
  if (leftStepIsUnit())
    return {first, Value()};
  return {first, distance(lanes, first,
                          at(lanes.addIndex(firstDepth, lanes.index(1))))};
}

std::pair<Value, Value> ContractionEmitter::rightInPlace(Value firstDepth) {
  auto at = [&](Value depth) {
    return addressOf(
        stored(c.right, point(Value(), Lanes::uniform(place.firstColumn),
                              Lanes::uniform(depth))));
  };
  Value first = at(firstDepth);
  if (t.right == ContractionTiling::Right::Prepacked)
    return {first, Value()};
  return {first, distance(lanes, first,
                          at(lanes.addIndex(firstDepth, lanes.index(1))))};
}

/// The same by tile registers, which take rows at one distance and no more than
/// there are.
void ContractionEmitter::multiplyTiles(Value row, Value sums, Value right,
                                       Value firstDepth, Value depth) {
  TileBlock::Arguments arguments;
  auto leftOf = [&](Value position) -> Value {
    if (!t.packLeft)
      return leftInPlace(position, firstDepth).first;
    Value at =
        lanes.mulIndex(lanes.subIndex(position, place.firstRow), leftWords());
    return pointerTo(leftMemory, lanes.addIndex(at, words(firstDepth)));
  };
  arguments.left = leftOf(row);
  arguments.leftStride = distance(lanes, arguments.left,
                                  leftOf(lanes.addIndex(row, lanes.index(1))));
  arguments.right = right;
  arguments.sums = sums;
  arguments.words = words(depth);
  arguments.rows = lanes.minIndex(lanes.subIndex(place.endRow, row),
                                  lanes.index(TileBlock::rows));
  arguments.continues = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne,
                                                  firstDepth, lanes.index(0));
  TileBlock::call(lanes, tileFunctions, arguments);
}

void ContractionEmitter::createTiles() {
  TileBlock tile{t.vectors, t.columns(), t.panelWidth};
  tileFunctions = tile.create(lanes.builder, frame.source,
                              (frame.source.getName() + "_block").str());
}

/// Adds the products of a block of rows and one panel to the sums.
void ContractionEmitter::multiplyBlock(Value row, Value sums, Value right,
                                       Value rightStep, Value firstDepth,
                                       Value depth) {
  if (t.tiles)
    return multiplyTiles(row, sums, right, firstDepth, depth);
  // Rows beyond the last repeat it; nobody reads their sums.
  Value lastRow = lanes.subIndex(place.endRow, lanes.index(1));
  MicroKernel::Arguments arguments;
  for (int64_t i = 0; i < t.rows; ++i) {
    Value position = lanes.addIndex(row, lanes.index(i));
    if (!rowsAreWhole())
      position = lanes.minIndex(position, lastRow);
    if (t.packLeft) {
      Value at = lanes.subIndex(position, place.firstRow);
      at = lanes.addIndex(lanes.mulIndex(at, leftWords()), words(firstDepth));
      arguments.left.push_back(pointerTo(leftMemory, at));
      continue;
    }
    auto [pointer, step] = leftInPlace(position, firstDepth);
    arguments.left.push_back(pointer);
    arguments.leftStep = step;
  }
  arguments.right = right;
  arguments.rightStep = rightStep;
  arguments.sums = sums;
  arguments.depth = words(depth);
  arguments.continues = lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne,
                                                  firstDepth, lanes.index(0));
  if (t.needsStarts())
    arguments.starts = startAt(lanes.subIndex(row, place.firstRow));
  std::string name = (frame.source.getName() + "_block").str();
  auto call = [&](func::FuncOp &function, int64_t vectors, StringRef suffix) {
    MicroKernel kernel = microKernel(vectors);
    if (!function)
      function =
          kernel.create(lanes.builder, frame.source, name + suffix.str());
    kernel.call(lanes, function, arguments);
  };
  if (lastVectors() == t.vectors)
    return call(block, t.vectors, "");
  wholeOrLast([&](bool whole) {
    whole ? call(block, t.vectors, "")
          : call(lastBlock, lastVectors(), "_last");
  });
}

} // namespace codegen
} // namespace anabranch
