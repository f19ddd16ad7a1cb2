//===- Stretches.cpp - moves that keep neighbours together ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Stretches.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

static Value plus(Body &body, Value index, int64_t constant) {
  if (constant == 0)
    return index;
  return body.create<arith::AddIOp>(
      index, Value(body.create<arith::ConstantIndexOp>(constant)));
}

/// The part of the result's last dimension that starts at `start`.
static Value part(LoweringBuilder &b, Value source,
                  ArrayRef<OpFoldResult> sizes, int64_t start,
                  std::optional<int64_t> copied, DimensionFn from) {
  return gatherElements(
      b, source, sizes, {},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value>) {
        Indices indices;
        unsigned last = position.size() - 1;
        for (unsigned dim = 0; dim < last; ++dim)
          indices.push_back(from(body, dim, position[dim]));
        indices.push_back(
            copied ? plus(body, position[last], *copied)
                   : from(body, last, plus(body, position[last], start)));
        return indices;
      });
}

Value gatherStretches(LoweringBuilder &b, Value source,
                      ArrayRef<OpFoldResult> sizes, ArrayRef<Stretch> stretches,
                      DimensionFn from) {
  if (stretches.empty())
    return part(b, source, sizes, 0, std::nullopt, from);
  Type element = cast<RankedTensorType>(source.getType()).getElementType();
  Value result = b.create<tensor::EmptyOp>(sizes, element);
  Sizes offsets(sizes.size(), b.indexAttr(0));
  Sizes strides(sizes.size(), b.indexAttr(1));
  int64_t start = 0;
  for (const Stretch &stretch : stretches) {
    if (stretch.size == 0)
      continue;
    Sizes partSizes(sizes);
    partSizes.back() = b.indexAttr(stretch.size);
    offsets.back() = b.indexAttr(start);
    Value piece = part(b, source, partSizes, start, stretch.source, from);
    result = b.create<tensor::InsertSliceOp>(piece, result, offsets, partSizes,
                                             strides);
    start += stretch.size;
  }
  return result;
}

} // namespace importer
} // namespace anabranch
