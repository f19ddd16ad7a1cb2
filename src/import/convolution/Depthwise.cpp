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

#include <algorithm>

using namespace mlir;

namespace anabranch {
namespace importer {

/// Larger windows would make a long kernel that spills.
static constexpr int64_t maxTaps = 49;

int64_t Convolution::taps() const {
  int64_t product = 1;
  for (int64_t dim = 0; dim < spatial; ++dim)
    product *= window(dim);
  return product;
}

bool hasFewTaps(const Convolution &conv) { return conv.taps() <= maxTaps; }

bool isDepthwise(const Convolution &conv) {
  return conv.groups > 1 && conv.channels() == 1 && conv.filters() == 1 &&
         hasFewTaps(conv);
}

namespace {

class Depthwise {
public:
  Depthwise(LoweringBuilder &b, const Convolution &conv)
      : b(b), conv(conv), isLast(prefersChannelsLast(conv, conv.groups)) {}

  Value run();

private:
  LoweringBuilder &b;
  const Convolution &conv;
  const bool isLast; ///< channels are the last dimension, else the second

  int64_t channelDim() const { return isLast ? conv.spatial + 1 : 1; }
  template <typename T> SmallVector<T> ordered(SmallVector<T> parts) const;
  Value paddedInput();
  Operand weightsByTap();
  Operand inputAt(Value padded, ArrayRef<int64_t> point);
  Operand weightAt(const Operand &weights, int64_t tap);
};

/// The values for [N, C, points...], in the order of the dimensions of this
/// object.
template <typename T>
SmallVector<T> Depthwise::ordered(SmallVector<T> parts) const {
  if (isLast)
    std::rotate(parts.begin() + 1, parts.begin() + 2, parts.end());
  return parts;
}

Value Depthwise::paddedInput() {
  Operand input = conv.input;
  if (isLast)
    input =
        b.tensor(moveChannels(b, input.value, ir::Channels::Last), input.dtype);
  if (!isLast)
    return padSpatial(b, input, conv.padding, conv.padding, conv.padValue);
  SmallVector<int64_t> padding = {0};
  llvm::append_range(padding, conv.padding);
  padding.push_back(0);
  return padSpatial(b, input, padding, padding, conv.padValue);
}

/// The input, shifted so that each output meets this point of its window.
Operand Depthwise::inputAt(Value padded, ArrayRef<int64_t> point) {
  Sizes offsets(2, b.indexAttr(0)), strides(2, b.indexAttr(1));
  for (auto [dim, position] : llvm::enumerate(point)) {
    offsets.push_back(b.indexAttr(position * conv.dilation[dim]));
    strides.push_back(b.indexAttr(conv.stride[dim]));
  }
  Value slice = b.create<tensor::ExtractSliceOp>(
      padded, ordered(offsets), ordered(conv.sizes), ordered(strides));
  return b.tensor(slice, conv.input.dtype);
}

/// [taps, channels], in the dtype of the sums. A vector of channels then reads
/// consecutive weights and converts none.
Operand Depthwise::weightsByTap() {
  SmallVector<int64_t> order;
  for (int64_t dim = 1; dim < conv.weight.rank(); ++dim)
    order.push_back(dim);
  order.push_back(0);
  DType dtype = accumulatorOf(conv.input.dtype);
  Value byTap = transpose(b, b.convert(conv.weight, dtype), order);
  ir::markStored(byTap.getDefiningOp());
  Value rows = reshape(b.builder, b.loc, byTap,
                       {b.indexAttr(conv.taps()), b.indexAttr(conv.groups)});
  return b.tensor(rows, dtype);
}

/// The weight of every channel at a tap.
Operand Depthwise::weightAt(const Operand &weights, int64_t tap) {
  auto type =
      RankedTensorType::get({conv.groups}, weights.type().getElementType());
  Sizes offsets = {b.indexAttr(tap), b.indexAttr(0)};
  Sizes sizes = {b.indexAttr(1), b.indexAttr(conv.groups)};
  Sizes strides(2, b.indexAttr(1));
  Value slice = b.create<tensor::ExtractSliceOp>(type, weights.value, offsets,
                                                 sizes, strides);
  return b.tensor(slice, weights.dtype, {channelDim()});
}

Value Depthwise::run() {
  Value padded = paddedInput();
  Operand weights = weightsByTap();
  SmallVector<Operand> operands;
  SmallVector<int64_t> point(conv.spatial, 0);
  for (int64_t tap = 0; tap < conv.taps(); ++tap) {
    int64_t rest = tap;
    for (int64_t dim = conv.spatial; dim-- > 0; rest /= conv.window(dim))
      point[dim] = rest % conv.window(dim);
    operands.push_back(inputAt(padded, point));
    operands.push_back(weightAt(weights, tap));
  }
  if (conv.bias) {
    operands.push_back(conv.bias);
    operands.back().positions = {channelDim()};
  }
  DType sumType = accumulatorOf(conv.input.dtype);
  Value result =
      b.elementwise(operands, sumType, conv.result, ordered(conv.sizes),
                    [&](Body &, ArrayRef<Num> x) {
                      Num sum = x[0] * x[1];
                      for (int64_t tap = 1; tap < conv.taps(); ++tap)
                        sum = s::multiplyAdd(x[2 * tap], x[2 * tap + 1], sum);
                      return conv.bias ? sum + x.back() : sum;
                    });
  return isLast ? moveChannels(b, result, ir::Channels::Second) : result;
}

} // namespace

Value depthwise(LoweringBuilder &b, const Convolution &conv) {
  return Depthwise(b, conv).run();
}

} // namespace importer
} // namespace anabranch
