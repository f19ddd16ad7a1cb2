//===- AttentionContext.cpp - what attention's emitters share -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/attention/AttentionContext.h"

#include "analysis/Gather.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

AttentionContext::AttentionContext(ir::AttentionOp op,
                                   const AttentionBlocking &blocking,
                                   KernelFunction &function)
    : op(op), blocking(blocking), function(function), lanes(function.lanes),
      memory(lanes, blocking.element, blocking.lanes),
      gathersKeys(!analysis::gathersOfRows(op.getKey()).empty()),
      gathersValues(!analysis::gathersOfRows(op.getValue()).empty()) {
  rank = cast<RankedTensorType>(op.getResult().getType()).getRank();
  queryCount = function.dim(op.getQuery(), rank - 2);
  keyCount = function.dim(op.getKey(), rank - 2);
  headCount = lanes.index(1);
  for (int64_t i = 0; i < rank - 2; ++i)
    headCount = lanes.mulIndex(headCount, tilesAlong(i));
  blockCount =
      blocking.isStreamed()
          ? lanes.index(1)
          : lanes.ceilDivIndex(queryCount, lanes.index(blocking.queries));
}

/// The number of positions of tiles along a dimension of the batch.
Value AttentionContext::tilesAlong(int64_t dimension) {
  Value size = function.dim(op.getResult(), dimension);
  return dimension == rank - 3
             ? lanes.divIndex(size, lanes.index(blocking.group))
             : size;
}

Value AttentionContext::tileCount() {
  return lanes.mulIndex(headCount, blockCount);
}

/// Whether all heads have the same rows of a mask, which neighbouring tiles
/// then find in a cache. Otherwise neighbours have the same keys.
bool AttentionContext::sharesMaskRows() {
  if (!op.getMask())
    return false;
  auto type = cast<RankedTensorType>(op.getMask().getType());
  int64_t maskRank = type.getRank();
  return maskRank > 1 && type.getDimSize(maskRank - 2) != 1 &&
         (maskRank < 3 || type.getDimSize(maskRank - 3) == 1);
}

void AttentionContext::enterTile(Value number) {
  Value queries = lanes.index(blocking.queries);
  Value block, rest;
  if (sharesMaskRows()) {
    block = lanes.divIndex(number, headCount);
    rest = lanes.remIndex(number, headCount);
  } else {
    block = lanes.remIndex(number, blockCount);
    rest = lanes.divIndex(number, blockCount);
  }
  tile.firstQuery = lanes.mulIndex(block, queries);
  tile.queryEnd =
      lanes.minIndex(lanes.addIndex(tile.firstQuery, queries),
                     lanes.mulIndex(queryCount, lanes.index(blocking.group)));
  tile.firstKey = lanes.index(0);
  tile.keyEnd = keyCount;
  if (op.getCausal())
    tile.keyEnd =
        lanes.minIndex(keyCount, lanes.minIndex(tile.queryEnd, queryCount));
  tile.batch.resize(rank - 2);
  for (int64_t i = rank - 2; i-- > 0;) {
    Value size = tilesAlong(i);
    tile.batch[i] = i ? lanes.remIndex(rest, size) : rest;
    rest = i ? lanes.divIndex(rest, size) : rest;
  }
}

//===----------------------------------------------------------------------===//
// Scratch memory
//===----------------------------------------------------------------------===//

int64_t AttentionContext::scratchElements() { return layOut(Value()); }

void AttentionContext::placeScratch(Value memory) { layOut(memory); }

/// Lays out the parts of the scratch memory, and sets their pointers unless
/// `start` is null. Returns the number of elements.
int64_t AttentionContext::layOut(Value start) {
  int64_t used = 0;
  auto place = [&](int64_t elements) -> Value {
    int64_t at = used;
    used += llvm::alignTo(elements, blocking.lanes);
    return start ? memory.pointerTo(start, lanes.index(at)) : Value();
  };
  const AttentionBlocking &b = blocking;
  // The values that are left at a tile's end come first: their place depends on
  // nothing else.
  scratch.output = place(b.queries * b.valueHead);
  // The last vector of a block of rows may end after them.
  int64_t ofRows = b.queries + b.lanes;
  scratch.maxima = place(ofRows);
  scratch.sums = place(b.queries * b.lanes);
  scratch.factors = place(ofRows);
  scratch.begins = place(op.getMask() ? b.queries : 0);
  scratch.ends = place(op.getMask() ? b.queries : 0);
  scratch.queries = place(b.parts * b.queryWords());
  scratch.keys = place(b.parts * b.keyWords());
  scratch.values = place(b.parts * b.valueWords());
  scratch.scores = place(b.scoreRows * b.keys);
  scratch.weights = place(b.multipliesPairs() ? b.parts * b.weightWords() : 0);
  return used;
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

SmallVector<Lanes> AttentionContext::position(Value tensor, Lanes row,
                                              Lanes column) {
  auto type = cast<RankedTensorType>(tensor.getType());
  SmallVector<Lanes> index;
  bool isMask = op.getMask() && tensor == op.getMask();
  bool isShared = tensor == op.getKey() || tensor == op.getValue();
  int64_t group = blocking.group;
  Value head = rank > 2 ? tile.batch[rank - 3] : Value();
  if (group > 1)
    head = lanes.mulIndex(head, lanes.index(group));
  if (group > 1 && !isShared && row.value) {
    head = lanes.addIndex(head, lanes.divIndex(row.value, queryCount));
    row = Lanes::uniform(queryOf(row.value));
  }
  for (int64_t i = 0; i < type.getRank(); ++i) {
    int64_t dimension = i + rank - type.getRank();
    Lanes at = dimension == rank - 2   ? row
               : dimension == rank - 1 ? column
               : dimension == rank - 3 ? Lanes::uniform(head)
                                       : Lanes::uniform(tile.batch[dimension]);
    if ((isMask || dimension < rank - 2) && type.getDimSize(i) == 1) {
      at = lanes.indexLanes(0);
    } else if (op.getGrouped() && isShared && dimension == rank - 3) {
      Value sharing = lanes.divIndex(function.dim(op.getResult(), i),
                                     function.dim(tensor, i));
      at = Lanes::uniform(lanes.divIndex(at.value, sharing));
    }
    index.push_back(at);
  }
  return index;
}

Lanes AttentionContext::element(Value tensor, Lanes row, Lanes column) {
  return memory.extendFloat(
      evaluator->evaluate(tensor, position(tensor, row, column)));
}

/// The evaluator computes nothing twice in a scope. So it suffices to read an
/// element of each row. Nobody uses these elements, so LLVM drops the loads.
void AttentionContext::placeRows(Value tensor, ValueRange rows) {
  if (tensor == op.getKey() ? gathersKeys : gathersValues)
    for (Value row : rows)
      element(tensor, Lanes::uniform(row), lanes.indexLanes(0));
}

Value AttentionContext::queryOf(Value row) {
  return blocking.group > 1 ? lanes.remIndex(row, queryCount) : row;
}

bool AttentionContext::seesAllKeys() {
  int64_t keys =
      cast<RankedTensorType>(op.getKey().getType()).getShape().end()[-2];
  return !op.getCausal() && !op.getMask() && !ShapedType::isDynamic(keys) &&
         keys % blocking.keysOfStep() == 0;
}

SmallVector<Value> AttentionContext::keysFrom(Value first) {
  Value last = lanes.subIndex(keyCount, lanes.index(1));
  SmallVector<Value> keys;
  for (int64_t i = 0; i < blocking.lanes; ++i)
    keys.push_back(lanes.minIndex(lanes.addIndex(first, lanes.index(i)), last));
  return keys;
}

int64_t AttentionContext::headSize(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape().back();
}

Value AttentionContext::headMask(int64_t size, Value at) {
  // Heads of whole steps of pairs or of parts may have whole vectors of zeros.
  auto endsInVector = [&](int64_t padded, Value tensor) {
    return padded - headSize(tensor) < blocking.lanes;
  };
  if (size % blocking.lanes == 0 &&
      endsInVector(blocking.head, op.getQuery()) &&
      endsInVector(blocking.valueHead, op.getValue()))
    return Value();
  LaneBuilder::MaskGuard guard(lanes, blocking.lanes, Value());
  Value rest = lanes.subIndex(lanes.index(size), at);
  return lanes.prefixMask(rest);
}

Value AttentionContext::scalar(double value) {
  return lanes.constant(lanes.builder.getFloatAttr(blocking.element, value));
}

Value AttentionContext::vector(double value) {
  Attribute number = lanes.builder.getFloatAttr(blocking.element, value);
  return lanes.constant(
      DenseElementsAttr::get(cast<ShapedType>(memory.vectorType()), number));
}

} // namespace kernels
} // namespace anabranch
