//===- AttentionReach.cpp - what a tile of attention touches --------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/attention/AttentionEmitter.h"
#include "codegen/footprint/TileFootprint.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

void AttentionEmitter::emitFootprint(TileFootprint &footprint,
                                     ArrayRef<Epilogue> epilogues, Value tile) {
  findTile(tile);
  RangeBuilder &ranges = footprint.ranges;
  IndexRange queryRows =
      t.isFew ? ranges.whole(queryCount) : ranges.between(firstQuery, queryEnd);
  // Whole blocks of keys are packed, also where only some are seen.
  Value keyRows = lanes.mulIndex(
      lanes.ceilDivIndex(keyEnd, lanes.index(t.keys)), lanes.index(t.keys));
  IndexRange keys = ranges.whole(lanes.minIndex(keyRows, keyCount));
  auto headsFrom = [&](Value head) {
    return ranges.between(head, lanes.addIndex(head, lanes.index(t.group)));
  };
  auto box = [&](Value tensor, IndexRange rows, IndexRange columns) {
    SmallVector<IndexRange> index;
    int64_t first = rank - cast<RankedTensorType>(tensor.getType()).getRank();
    for (auto [i, at] : llvm::enumerate(position(tensor, Lanes(), Lanes()))) {
      int64_t dimension = first + i;
      bool isShared = tensor == op.getKey() || tensor == op.getValue();
      IndexRange range = dimension == rank - 2   ? rows
                         : dimension == rank - 1 ? columns
                         : dimension == rank - 3 && !isShared
                             ? headsFrom(at.value)
                             : ranges.point(at.value);
      // A mask of one row or column is repeated.
      bool isUnit = cast<RankedTensorType>(tensor.getType()).getDimSize(i) == 1;
      index.push_back(isUnit ? ranges.point(lanes.index(0)) : range);
    }
    return index;
  };
  auto allOf = [&](Value tensor) {
    return ranges.whole(frame.dim(tensor, rank - 1));
  };
  auto read = [&](Value tensor, ArrayRef<IndexRange> index) {
    footprint.reads(tensor, index, [](Value) { return false; });
  };
  read(op.getQuery(), box(op.getQuery(), queryRows, allOf(op.getQuery())));
  read(op.getKey(), box(op.getKey(), keys, allOf(op.getKey())));
  read(op.getValue(), box(op.getValue(), keys, allOf(op.getValue())));
  if (op.getMask())
    read(op.getMask(), box(op.getMask(), queryRows, keys));
  SmallVector<IndexRange> result =
      box(op.getResult(), queryRows, allOf(op.getResult()));
  for (const Epilogue &epilogue : epilogues)
    footprint.epilogue(epilogue, op.getResult(), result);
}

} // namespace codegen
} // namespace anabranch
