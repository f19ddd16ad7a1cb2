//===- LeftOperand.cpp - the rows of a product's left operand -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/LeftOperand.h"

#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/emit/Transpose.h"
#include "kernels/microkernel/FloatParts.h"
#include "kernels/microkernel/TileBlock.h"
#include "kernels/operands/ImagePatch.h"
#include "kernels/operands/WindowRows.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

LeftOperand::LeftOperand(GemmContext &gemm, Value packed)
    : gemm(gemm), lanes(gemm.lanes), packed(packed),
      reader(gemm, gemm.contraction.left) {}

/// The scratch elements of a step of a copy in parts.
static Value stepElements(GemmContext &gemm) {
  return gemm.lanes.index(gemm.layout.steps.parts *
                          LeftOperand::partBytes(gemm) /
                          gemm.memory.elementBytes());
}

/// The scratch elements of a copy in parts.
static Value partsElements(GemmContext &gemm) {
  LaneBuilder &lanes = gemm.lanes;
  Value depths = gemm.layout.steps.depthOutside
                     ? lanes.index(gemm.layout.tiling.depth)
                     : gemm.depthCount;
  return lanes.mulIndex(
      lanes.ceilDivIndex(depths, lanes.index(gemm.layout.stepDepths())),
      stepElements(gemm));
}

/// Sums of a row's elements, which offsets of the right operand multiply; zero
/// if it has none.
static int64_t sumsOfRow(const GemmContext &gemm) {
  if (!gemm.layout.steps.multipliesIntegers())
    return 0;
  auto weight = QuantizedOperand::find(gemm.contraction);
  return weight->offset ? gemm.layout.scalings() : 0;
}

int64_t LeftOperand::partBytes(GemmContext &gemm) {
  if (gemm.layout.left.patch)
    return ImagePatch(gemm).partBytes();
  // A few rows more keep the parts of a row out of one set of a cache.
  constexpr int64_t rowsBetween = 4;
  return (gemm.layout.tiling.rowsPerTile + rowsBetween) * TileBlock::stepBytes;
}

Value LeftOperand::packedWords(GemmContext &gemm) {
  LaneBuilder &lanes = gemm.lanes;
  if (int64_t elements = gemm.layout.left.rowElements)
    return lanes.index(elements);
  int64_t width = gemm.layout.tiling.lanes;
  int64_t kPack = gemm.layout.left.isInterleaved() ? 1 : gemm.layout.word.kPack;
  Value vectors =
      lanes.ceilDivIndex(gemm.depthCount, lanes.index(width * kPack));
  return lanes.mulIndex(vectors, lanes.index(width));
}

Value LeftOperand::scratchElements(GemmContext &gemm) {
  LaneBuilder &lanes = gemm.lanes;
  if (!gemm.layout.left.isCopied())
    return lanes.index(0);
  Value elements = lanes.mulIndex(lanes.index(gemm.layout.tiling.rowsPerTile),
                                  packedWords(gemm));
  if (gemm.layout.left.patch)
    return lanes.index(ImagePatch(gemm).scratchElements());
  if (gemm.layout.steps.hasParts())
    return lanes.addIndex(
        partsElements(gemm),
        lanes.index(sumsOfRow(gemm) * gemm.layout.tiling.rowsPerTile));
  // The last vector of interleaved rows ends after its block.
  int64_t after =
      gemm.layout.left.isInterleaved() ? gemm.layout.tiling.lanes : 0;
  if (auto windows = WindowRows::of(gemm))
    after = windows->elementsAfter() + windows->paddingElements();
  return lanes.addIndex(elements, lanes.index(after));
}

void LeftOperand::pack() {
  if (!gemm.layout.left.isCopied())
    return;
  if (gemm.layout.left.patch)
    return ImagePatch(gemm).pack(packed);
  if (gemm.layout.steps.hasParts()) {
    if (!gemm.layout.steps.depthOutside)
      packParts(lanes.index(0), gemm.depthCount);
    return;
  }
  if (auto windows = WindowRows::of(gemm)) {
    // The padding is before the copy.
    Value outside = packed;
    packed =
        gemm.memory.pointerTo(packed, lanes.index(windows->paddingElements()));
    windows->pack(packed, packedWords(gemm), outside);
  } else {
    gemm.layout.left.isInterleaved() ? packBlocks() : packRows();
  }
}

/// Transposes squares in registers. Their vectors are longer than a block has
/// rows; the next depth overwrites the excess.
void LeftOperand::packBlocks() {
  int64_t rows = gemm.layout.tiling.rows, width = gemm.layout.tiling.lanes;
  Value stride = packedWords(gemm);
  bool whole = gemm.depthIsMultipleOf(width);
  Value lastRow = lanes.subIndex(gemm.tile.endRow, lanes.index(1));
  lanes.loop(gemm.tile.firstRow, gemm.tile.endRow, rows, [&](Value row) {
    Value start =
        lanes.mulIndex(lanes.subIndex(row, gemm.tile.firstRow), stride);
    lanes.loop(lanes.index(0), gemm.depthCount, width, [&](Value k) {
      SmallVector<Value> square;
      for (int64_t i = 0; i < rows; ++i) {
        Value at = lanes.minIndex(lanes.addIndex(row, lanes.index(i)), lastRow);
        square.push_back(
            reader.elements(at, Value(), k, gemm.depthCount, whole));
      }
      square.resize(width, square.back());
      Value offset =
          lanes.addIndex(start, lanes.mulIndex(k, lanes.index(rows)));
      for (auto [i, vector] : llvm::enumerate(transpose(lanes, square)))
        gemm.memory.store(vector, packed,
                          lanes.addIndex(offset, lanes.index(i * rows)));
    });
  });
}

void LeftOperand::packRows() {
  Value stride = packedWords(gemm);
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  bool whole = gemm.depthIsMultipleOf(width);
  gemm.forCopiedRows([&](Value row, Value from) {
    Value start =
        lanes.mulIndex(lanes.subIndex(row, gemm.tile.firstRow), stride);
    lanes.loop(lanes.index(0), gemm.depthCount, width, [&](Value k) {
      Value vector = reader.words(from, Value(), k, gemm.depthCount, whole);
      gemm.memory.store(vector, packed, lanes.addIndex(start, gemm.words(k)));
    });
  });
}

/// The address of the first part of a row of the tile.
Value LeftOperand::partsAt(Value row, Value depth) {
  Value step = lanes.divIndex(lanes.subIndex(depth, firstDepth),
                              lanes.index(gemm.layout.stepDepths()));
  Value place = lanes.mulIndex(lanes.subIndex(row, gemm.tile.firstRow),
                               lanes.index(TileBlock::words));
  return gemm.memory.pointerTo(
      packed, lanes.addIndex(lanes.mulIndex(step, stepElements(gemm)), place));
}

void LeftOperand::packParts(Value first, Value count) {
  firstDepth = first;
  Value end = lanes.addIndex(first, count);
  lanes.loop(gemm.tile.firstRow, gemm.tile.endRow, 1, [&](Value row) {
    if (sumsOfRow(gemm))
      return packAndAdd(row, first, end);
    lanes.loop(first, end, gemm.layout.stepDepths(),
               [&](Value depth) { packStep(row, depth, end); });
  });
}

/// Packs the elements of a step. Returns their sum, lane by lane.
Value LeftOperand::packStep(Value row, Value depth, Value end) {
  bool whole = gemm.depthIsMultipleOf(gemm.layout.stepDepths());
  Value next = lanes.addIndex(depth, lanes.index(gemm.layout.tiling.lanes));
  Value low = reader.elements(row, Value(), depth, end, whole);
  Value high = reader.elements(row, Value(), next, end, whole);
  storeParts(lanes, gemm.memory,
             splitToParts(lanes, low, high, gemm.layout.steps.parts),
             partsAt(row, depth), lanes.index(0), partBytes(gemm));
  return lanes.make<arith::AddFOp>(low, high);
}

/// Packs a row, and adds the elements of each scale.
void LeftOperand::packAndAdd(Value row, Value first, Value end) {
  Value size = lanes.index(gemm.layout.steps.scaledDepth);
  lanes.loop(first, end, gemm.layout.steps.scaledDepth, [&](Value start) {
    Value stop = lanes.addIndex(start, size);
    if (!gemm.depthIsMultipleOf(gemm.layout.steps.scaledDepth))
      stop = lanes.minIndex(stop, end);
    Value sums = lanes.loop(
        start, stop, gemm.layout.stepDepths(), gemm.memory.zeroVector(),
        [&](Value depth, ValueRange total) -> SmallVector<Value> {
          return {
              lanes.make<arith::AddFOp>(total[0], packStep(row, depth, end))};
        })[0];
    Value sum = sumLanes(lanes, sums);
    Value scaling = lanes.divIndex(lanes.subIndex(start, first), size);
    gemm.memory.store(sum, packed, sumIndex(row, scaling));
  });
}

Value LeftOperand::sumIndex(Value row, Value scaling) {
  Value line =
      lanes.mulIndex(scaling, lanes.index(gemm.layout.tiling.rowsPerTile));
  Value within = lanes.addIndex(line, lanes.subIndex(row, gemm.tile.firstRow));
  return lanes.addIndex(partsElements(gemm), within);
}

Value LeftOperand::sumOf(Value row, Value scaling) {
  Value sum = gemm.memory.loadScalar(packed, sumIndex(row, scaling));
  return lanes.make<vector::BroadcastOp>(gemm.memory.vectorType(), sum);
}

bool LeftOperand::stepIsUnit(const GemmContext &gemm) {
  return gemm.layout.left.isCopied() ||
         gemm.contraction.left.unitLoop == gemm.contraction.depth;
}

OperandReader::Address LeftOperand::at(Value row, Value depth) {
  if (!gemm.layout.left.isCopied()) {
    int64_t run = gemm.layout.left.run;
    int64_t depths = stepIsUnit(gemm) ? 0 : 1;
    if (run)
      depths = run * gemm.layout.word.kPack;
    return reader.addressAlongDepth(
        depth, depths, [&](Lanes k) { return gemm.point(row, Lanes(), k); });
  }
  if (gemm.layout.left.patch)
    return {ImagePatch(gemm).at(packed, lanes.subIndex(row, gemm.tile.firstRow),
                                depth),
            Value()};
  if (gemm.layout.steps.hasParts())
    return {partsAt(row, depth), Value()};
  Value start = lanes.mulIndex(lanes.subIndex(row, gemm.tile.firstRow),
                               packedWords(gemm));
  Value within =
      gemm.layout.left.isInterleaved()
          ? lanes.mulIndex(depth, lanes.index(gemm.layout.tiling.rows))
          : gemm.words(depth);
  Value offset = lanes.addIndex(start, within);
  return {gemm.memory.pointerTo(packed, offset), Value()};
}

Value LeftOperand::words(Value row, Value depth, Value end, bool whole) {
  if (!gemm.layout.left.isCopied()) {
    Value at = lanes.addIndex(gemm.tile.firstRow, row);
    // Rows after the last one of a group repeat it. Their sums are not read.
    if (gemm.contraction.isGrouped)
      at = lanes.minIndex(at, lanes.subIndex(gemm.tile.endRow, lanes.index(1)));
    return reader.words(at, Value(), depth, end, whole);
  }
  Value start = lanes.mulIndex(row, packedWords(gemm));
  return gemm.memory.loadVector(packed,
                                lanes.addIndex(start, gemm.words(depth)));
}

} // namespace kernels
} // namespace anabranch
