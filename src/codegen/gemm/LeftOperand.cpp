//===- LeftOperand.cpp - the rows of a product's left operand -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/LeftOperand.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

Value LeftOperand::packedWords(GemmContext &gemm) {
  LaneBuilder &lanes = gemm.lanes;
  int64_t width = gemm.blocking.lanes;
  Value vectors = lanes.ceilDivIndex(gemm.depthCount,
                                     lanes.index(width * gemm.blocking.kPack));
  return lanes.mulIndex(vectors, lanes.index(width));
}

void LeftOperand::pack() {
  if (!gemm.blocking.packLeft)
    return;
  Value stride = packedWords(gemm);
  int64_t width = gemm.blocking.lanes * gemm.blocking.kPack;
  bool whole = gemm.depthIsMultipleOf(width);
  lanes.loop(gemm.tile.firstRow, gemm.tile.endRow, 1, [&](Value row) {
    Value start =
        lanes.mulIndex(lanes.subIndex(row, gemm.tile.firstRow), stride);
    lanes.loop(lanes.index(0), gemm.depthCount, width, [&](Value k) {
      Value vector = reader.words(row, Value(), k, gemm.depthCount, whole);
      gemm.memory.store(vector, packed, lanes.addIndex(start, gemm.words(k)));
    });
  });
}

bool LeftOperand::stepIsUnit(const GemmContext &gemm) {
  return gemm.blocking.packLeft ||
         gemm.contraction.left.unitLoop == gemm.contraction.depth;
}

OperandReader::Address LeftOperand::at(Value row, Value depth) {
  if (!gemm.blocking.packLeft)
    return reader.addressAlongDepth(depth, !stepIsUnit(gemm), [&](Lanes k) {
      return gemm.point(row, Lanes(), k);
    });
  Value start = lanes.mulIndex(lanes.subIndex(row, gemm.tile.firstRow),
                               packedWords(gemm));
  Value offset = lanes.addIndex(start, gemm.words(depth));
  return {gemm.memory.pointerTo(packed, offset), Value()};
}

Value LeftOperand::words(Value row, Value depth, Value end, bool whole) {
  if (!gemm.blocking.packLeft)
    return reader.words(lanes.addIndex(gemm.tile.firstRow, row), Value(), depth,
                        end, whole);
  Value start = lanes.mulIndex(row, packedWords(gemm));
  return gemm.memory.loadVector(packed,
                                lanes.addIndex(start, gemm.words(depth)));
}

} // namespace codegen
} // namespace anabranch
