//===- AttentionFootprint.cpp - what a tile of attention touches ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionFootprint.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The box of elements of query, key, value, mask or result in these rows and
/// columns, at the tile's position.
static SmallVector<IndexRange> boxOf(AttentionContext &attention,
                                     RangeBuilder &ranges, Value tensor,
                                     IndexRange rows, IndexRange columns) {
  LaneBuilder &lanes = attention.lanes;
  ir::AttentionOp op = attention.op;
  auto type = cast<RankedTensorType>(tensor.getType());
  int64_t rank = attention.rank, first = rank - type.getRank();
  auto headsFrom = [&](Value head) {
    Value group = lanes.index(attention.blocking.group);
    return ranges.between(head, lanes.addIndex(head, group));
  };
  bool isShared = tensor == op.getKey() || tensor == op.getValue();
  SmallVector<IndexRange> index;
  for (auto [i, at] :
       llvm::enumerate(attention.position(tensor, Lanes(), Lanes()))) {
    int64_t dimension = first + i;
    IndexRange range = dimension == rank - 2   ? rows
                       : dimension == rank - 1 ? columns
                       : dimension == rank - 3 && !isShared
                           ? headsFrom(at.value)
                           : ranges.point(at.value);
    // A mask with one row or column repeats it.
    bool isUnit = type.getDimSize(i) == 1;
    index.push_back(isUnit ? ranges.point(lanes.index(0)) : range);
  }
  return index;
}

void addAttentionFootprint(AttentionContext &attention,
                           TileFootprint &footprint,
                           ArrayRef<Epilogue> epilogues, Value tile) {
  attention.enterTile(tile);
  RangeBuilder &ranges = footprint.ranges;
  LaneBuilder &lanes = attention.lanes;
  ir::AttentionOp op = attention.op;
  const AttentionBlocking &blocking = attention.blocking;
  IndexRange queries =
      blocking.isStreamed()
          ? ranges.whole(attention.queryCount)
          : ranges.between(attention.tile.firstQuery, attention.tile.queryEnd);
  // Whole blocks of keys are packed, even if a query sees only some of their
  // keys.
  Value block = lanes.index(blocking.keys);
  Value keyRows =
      lanes.mulIndex(lanes.ceilDivIndex(attention.tile.keyEnd, block), block);
  IndexRange keys = ranges.whole(lanes.minIndex(keyRows, attention.keyCount));
  auto allOf = [&](Value tensor) {
    return ranges.whole(attention.function.dim(tensor, attention.rank - 1));
  };
  auto read = [&](Value tensor, IndexRange rows, IndexRange columns) {
    footprint.reads(tensor, boxOf(attention, ranges, tensor, rows, columns),
                    [](Value) { return false; });
  };
  read(op.getQuery(), queries, allOf(op.getQuery()));
  read(op.getKey(), keys, allOf(op.getKey()));
  read(op.getValue(), keys, allOf(op.getValue()));
  if (op.getMask())
    read(op.getMask(), queries, keys);
  SmallVector<IndexRange> result =
      boxOf(attention, ranges, op.getResult(), queries, allOf(op.getResult()));
  for (const Epilogue &epilogue : epilogues)
    footprint.epilogue(epilogue, op.getResult(), result);
}

} // namespace kernels
} // namespace anabranch
