//===- Depthwise.cpp - convolutions of each channel by itself -------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/lowering/Contract.h"
#include "import/lowering/Convolution.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Windows.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

/// Larger windows would make a long kernel that spills.
static constexpr int64_t kMaxTaps = 49;

int64_t Convolution::taps() const {
  int64_t product = 1;
  for (int64_t dim = 0; dim < spatial; ++dim)
    product *= window(dim);
  return product;
}

bool isDepthwise(const Convolution &conv) {
  return conv.groups > 1 && conv.channels() == 1 && conv.filters() == 1 &&
         conv.taps() <= kMaxTaps;
}

/// The padded input as it meets the outputs at this point of the window.
static Operand inputAt(LoweringBuilder &b, const Convolution &conv,
                       Value padded, ArrayRef<int64_t> point) {
  Sizes offsets(2, b.indexAttr(0)), strides(2, b.indexAttr(1));
  for (auto [dim, position] : llvm::enumerate(point)) {
    offsets.push_back(b.indexAttr(position * conv.dilation[dim]));
    strides.push_back(b.indexAttr(conv.stride[dim]));
  }
  Value slice =
      b.create<tensor::ExtractSliceOp>(padded, offsets, conv.sizes, strides);
  return b.tensor(slice, conv.input.dtype);
}

/// The weight of every channel at this point.
static Operand weightAt(LoweringBuilder &b, const Convolution &conv,
                        ArrayRef<int64_t> point) {
  int64_t rank = conv.weight.rank();
  Sizes offsets(2, b.indexAttr(0)), sizes(rank, b.indexAttr(1));
  Sizes strides(rank, b.indexAttr(1));
  sizes[0] = b.indexAttr(conv.groups);
  for (int64_t position : point)
    offsets.push_back(b.indexAttr(position));
  auto type =
      RankedTensorType::get({conv.groups}, conv.weight.type().getElementType());
  Value slice = b.create<tensor::ExtractSliceOp>(type, conv.weight.value,
                                                 offsets, sizes, strides);
  return b.tensor(slice, conv.weight.dtype, {1});
}

Value depthwise(LoweringBuilder &b, const Convolution &conv) {
  Value padded = padSpatial(b, conv.input, conv.padding, conv.padding, 0);
  SmallVector<Operand> operands;
  SmallVector<int64_t> point(conv.spatial, 0);
  for (int64_t tap = 0; tap < conv.taps(); ++tap) {
    int64_t rest = tap;
    for (int64_t dim = conv.spatial; dim-- > 0; rest /= conv.window(dim))
      point[dim] = rest % conv.window(dim);
    operands.push_back(inputAt(b, conv, padded, point));
    operands.push_back(weightAt(b, conv, point));
  }
  if (conv.bias) {
    operands.push_back(conv.bias);
    operands.back().positions = {1};
  }
  DType dtype = b.resultDType();
  return b.elementwise(operands, accumulatorOf(dtype), dtype, conv.sizes,
                       [&](Body &, ArrayRef<Num> x) {
                         Num sum = x[0] * x[1];
                         for (int64_t tap = 1; tap < conv.taps(); ++tap)
                           sum = sum + x[2 * tap] * x[2 * tap + 1];
                         return conv.bias ? sum + x.back() : sum;
                       });
}

} // namespace importer
} // namespace anabranch
