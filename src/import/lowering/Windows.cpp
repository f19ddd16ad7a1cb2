//===- Windows.cpp - what convolutions and pools have in common -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Windows.h"

#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

Value padSpatial(LoweringBuilder &b, Operand tensor, ArrayRef<int64_t> low,
                 ArrayRef<int64_t> high, double value) {
  auto isZero = [](int64_t pad) { return pad == 0; };
  if (llvm::all_of(low, isZero) && llvm::all_of(high, isZero))
    return tensor.value;
  Sizes inner = b.sizesOf(tensor.value), outer = inner;
  Sizes offsets(inner.size(), b.indexAttr(0));
  Sizes strides(inner.size(), b.indexAttr(1));
  size_t first = inner.size() - low.size();
  for (size_t dim = 0; dim < low.size(); ++dim) {
    offsets[first + dim] = b.indexAttr(low[dim]);
    outer[first + dim] = addSizes(b.builder, b.loc, inner[first + dim],
                                  b.indexAttr(low[dim] + high[dim]));
  }
  Value padding = b.fill(outer, tensor.dtype, value);
  return b.create<tensor::InsertSliceOp>(tensor.value, padding, offsets, inner,
                                         strides);
}

Value scaleIndex(Body &body, Value index, int64_t factor) {
  if (factor == 1)
    return index;
  return body.create<arith::MulIOp>(
      index, Value(body.create<arith::ConstantIndexOp>(factor)));
}

} // namespace importer
} // namespace anabranch
