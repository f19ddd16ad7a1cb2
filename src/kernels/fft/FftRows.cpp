//===- FftRows.cpp - which rows a tile of a transform has -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/fft/FftRows.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// A tile has so many points of short rows, and as many rows of `unit` as they
/// take. The points then stay in a core's cache, and are worth the calls.
static constexpr int64_t pointsOfLane = 256;
static constexpr int64_t mostUnits = 16;

FftRows::FftRows(ir::FftOp op, KernelFunction &function)
    : op(op), function(function), lanes(function.lanes) {
  Value real = op.getReal();
  auto type = cast<RankedTensorType>(real.getType());
  rank = type.getRank();
  dimension = op.getDimension();
  isAcross = dimension != rank - 1;
  element = type.getElementType();
  fromCount = function.dim(real, dimension);
  int64_t before = op.getToReal() ? 0 : 1;
  toCount = function.dim(op.getResult(), before + dimension);
  length = op.getToReal() ? toCount : fromCount;

  outer = lanes.index(1);
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (dim == dimension || (isAcross && dim == rank - 1))
      continue;
    outerDims.push_back(dim);
    outerSizes.push_back(function.dim(real, dim));
    outer = lanes.mulIndex(outer, outerSizes.back());
  }
  inner = isAcross ? function.dim(real, rank - 1) : lanes.index(1);

  Value one = lanes.index(1);
  Value units =
      lanes.maxIndex(one, lanes.divIndex(lanes.index(pointsOfLane), length));
  capacity = lanes.mulIndex(lanes.minIndex(units, lanes.index(mostUnits)),
                            lanes.index(unit()));
  innerStep = lanes.maxIndex(one, lanes.minIndex(inner, capacity));
  outerStep = lanes.divIndex(capacity, innerStep);
}

Value FftRows::roundedUp(Value count) {
  Value step = lanes.index(unit());
  return lanes.mulIndex(lanes.ceilDivIndex(count, step), step);
}

SmallVector<Value> FftRows::operands() {
  SmallVector<Value> parts{op.getReal()};
  if (op.getImaginary())
    parts.push_back(op.getImaginary());
  return parts;
}

Value FftRows::tileCount() {
  return lanes.mulIndex(lanes.ceilDivIndex(outer, outerStep),
                        lanes.ceilDivIndex(inner, innerStep));
}

FftRows::Tile FftRows::tileAt(Value number) {
  Value blocks = lanes.ceilDivIndex(inner, innerStep);
  Tile tile;
  tile.first = lanes.mulIndex(lanes.divIndex(number, blocks), outerStep);
  tile.count = lanes.minIndex(outerStep, lanes.subIndex(outer, tile.first));
  tile.firstInner = lanes.mulIndex(lanes.remIndex(number, blocks), innerStep);
  tile.width =
      lanes.minIndex(innerStep, lanes.subIndex(inner, tile.firstInner));
  return tile;
}

SmallVector<Lanes> FftRows::index(Value position, Lanes k, Lanes innerPosition,
                                  std::optional<int64_t> part) {
  SmallVector<Lanes> index(rank);
  index[rank - 1] = innerPosition;
  index[dimension] = k;
  for (size_t i = outerDims.size(); i-- > 0;) {
    Value at = i ? lanes.remIndex(position, outerSizes[i]) : position;
    index[outerDims[i]] = Lanes::uniform(at);
    if (i)
      position = lanes.divIndex(position, outerSizes[i]);
  }
  if (part)
    index.insert(index.begin(), lanes.indexLanes(*part));
  return index;
}

SmallVector<IndexRange> FftRows::ranges(RangeBuilder &ranges, const Tile &tile,
                                        Value tensor) {
  int64_t before = cast<RankedTensorType>(tensor.getType()).getRank() - rank;
  auto from = [&](Value first, Value count) {
    return ranges.between(first, lanes.addIndex(first, count));
  };
  SmallVector<IndexRange> index(rank);
  index[rank - 1] = from(tile.firstInner, tile.width);
  index[dimension] = ranges.whole(function.dim(tensor, before + dimension));
  SmallVector<IndexRange> positions =
      ranges.split(from(tile.first, tile.count), outerSizes);
  for (auto [dim, range] : llvm::zip(outerDims, positions))
    index[dim] = range;
  if (before)
    index.insert(index.begin(), ranges.whole(lanes.index(2)));
  return index;
}

} // namespace kernels
} // namespace anabranch
