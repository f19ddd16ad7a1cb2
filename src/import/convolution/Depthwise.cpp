//===- Depthwise.cpp - convolutions of each channel by itself -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Contract.h"
#include "import/lowering/Convolution.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Windows.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/MathExtras.h"

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

/// The taps that one vector of weights multiplies.
using Taps = SmallVector<SmallVector<int64_t>>;

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
  DType sumType() const;
  template <typename T> SmallVector<T> ordered(SmallVector<T> parts) const;
  Value paddedInput();
  Operand inputAt(Value padded, ArrayRef<int64_t> point);
  int64_t quadDim() const;
  Operand quadWeights();
  Operand inRows(const Operand &weights);
  Operand weightAt(const Operand &rows, int64_t row);
  SmallVector<Taps> groupTaps() const;
  Num add(Num sum, Num weights, ArrayRef<Num> taps) const;
};

/// The number of taps that a word of bytes has.
constexpr int64_t quad = 4;

/// Products of bytes are summed in f32, unless four are added at once: f32 is
/// exact for so few taps, and multiplies several times as fast as i32.
DType Depthwise::sumType() const {
  static_assert(maxTaps * 255 * 128 < 1 << 24);
  DType dtype = conv.input.dtype;
  return dtype.isByte() && !conv.dotsBytes ? DType::f32(b.context())
                                           : accumulatorOf(dtype);
}

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

/// The dimension of the window along which four taps form a word. Along
/// another than the last one, positions of a row share the words of the input.
int64_t Depthwise::quadDim() const {
  int64_t best = conv.spatial - 1, most = 1;
  for (int64_t dim = 0; dim + 1 < conv.spatial; ++dim)
    if (conv.window(dim) > most) {
      most = conv.window(dim);
      best = dim;
    }
  return best;
}

/// The weights of each word, like the weights with a fourth of the window along
/// quadDim().
Operand Depthwise::quadWeights() {
  int64_t dim = quadDim(), size = conv.window(dim);
  int64_t quads = llvm::divideCeil(size, quad);
  SmallVector<int64_t> none(conv.spatial, 0), missing = none;
  missing[dim] = size > quad ? quads * quad - size : 0;
  Value padded = padSpatial(b, conv.weight, none, missing, 0);
  Sizes sizes = b.sizesOf(conv.weight.value);
  Sizes offsets(sizes.size(), b.indexAttr(0));
  sizes[2 + dim] = b.indexAttr(quads);
  Sizes strides(sizes.size(), b.indexAttr(1));
  strides[2 + dim] = b.indexAttr(quad);
  SmallVector<Operand> bytes;
  for (int64_t i = 0; i < std::min(quad, size); ++i) {
    offsets[2 + dim] = b.indexAttr(i);
    Value slice =
        b.create<tensor::ExtractSliceOp>(padded, offsets, sizes, strides);
    bytes.push_back(b.tensor(slice, conv.weight.dtype));
  }
  DType word = sumType();
  Value words =
      b.elementwise(bytes, word, word, sizes, [&](Body &, ArrayRef<Num> x) {
        Num joined = x[0] & x[0].constant(255);
        for (size_t i = 1; i < x.size(); ++i)
          joined = joined |
                   ((x[i] & x[i].constant(255)) * x[i].constant(1 << (8 * i)));
        return joined;
      });
  return b.tensor(words, word);
}

/// The weights as [rows, channels], a row for each tap or for each word of
/// four. A vector of channels then reads consecutive ones and converts none.
Operand Depthwise::inRows(const Operand &weights) {
  SmallVector<int64_t> order;
  int64_t rows = 1;
  for (int64_t dim = 1; dim < weights.rank(); ++dim) {
    order.push_back(dim);
    rows *= weights.size(dim);
  }
  order.push_back(0);
  Value byTap = transpose(b, weights.value, order);
  ir::markStored(byTap.getDefiningOp());
  Value flat = reshape(b.builder, b.loc, byTap,
                       {b.indexAttr(rows), b.indexAttr(conv.groups)});
  return b.tensor(flat, weights.dtype);
}

/// A row of the weights.
Operand Depthwise::weightAt(const Operand &rows, int64_t row) {
  auto type =
      RankedTensorType::get({conv.groups}, rows.type().getElementType());
  Sizes offsets = {b.indexAttr(row), b.indexAttr(0)};
  Sizes sizes = {b.indexAttr(1), b.indexAttr(conv.groups)};
  Sizes strides(2, b.indexAttr(1));
  Value slice = b.create<tensor::ExtractSliceOp>(type, rows.value, offsets,
                                                 sizes, strides);
  return b.tensor(slice, rows.dtype, {channelDim()});
}

/// The taps of each row of weights.
SmallVector<Taps> Depthwise::groupTaps() const {
  int64_t dim = quadDim(), step = conv.dotsBytes ? quad : 1;
  SmallVector<int64_t> sizes;
  int64_t rows = 1;
  for (int64_t i = 0; i < conv.spatial; ++i) {
    int64_t size = conv.window(i);
    sizes.push_back(i == dim ? llvm::divideCeil(size, step) : size);
    rows *= sizes.back();
  }
  SmallVector<Taps> groups;
  SmallVector<int64_t> point(conv.spatial, 0);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row;
    for (int64_t i = conv.spatial; i-- > 0; rest /= sizes[i])
      point[i] = rest % sizes[i];
    Taps taps;
    int64_t first = point[dim] * step;
    for (int64_t at = first; at < std::min(first + step, conv.window(dim));
         ++at) {
      point[dim] = at;
      taps.push_back(point);
    }
    groups.push_back(taps);
  }
  return groups;
}

Num Depthwise::add(Num sum, Num weights, ArrayRef<Num> taps) const {
  if (!conv.dotsBytes)
    return sum.value ? s::multiplyAdd(taps[0], weights, sum)
                     : taps[0] * weights;
  if (!sum.value)
    sum = s::constant(*weights.body, sumType(), int64_t(0));
  bool isSigned = !conv.input.dtype.isUnsigned;
  return s::byteDot(sum, weights, taps, isSigned);
}

Value Depthwise::run() {
  Value padded = paddedInput();
  Operand rows = inRows(
      conv.dotsBytes ? quadWeights()
                     : b.tensor(b.convert(conv.weight, sumType()), sumType()));
  SmallVector<Taps> groups = groupTaps();
  SmallVector<Operand> operands;
  for (auto [row, taps] : llvm::enumerate(groups)) {
    operands.push_back(weightAt(rows, row));
    for (ArrayRef<int64_t> point : taps)
      operands.push_back(inputAt(padded, point));
  }
  if (conv.bias) {
    operands.push_back(conv.bias);
    operands.back().positions = {channelDim()};
  }
  auto body = [&](Body &, ArrayRef<Num> x) {
    ArrayRef<Num> rest = x;
    Num sum;
    for (const Taps &taps : groups) {
      sum = add(sum, rest[0], rest.slice(1, taps.size()));
      rest = rest.drop_front(1 + taps.size());
    }
    return conv.bias ? sum + rest.front() : sum;
  };
  Sizes sizes = ordered(conv.sizes);
  Value result =
      conv.dotsBytes
          ? b.elementwiseMixed(operands, conv.result, sizes, body)
          : b.elementwise(operands, sumType(), conv.result, sizes, body);
  return isLast ? moveChannels(b, result, ir::Channels::Second) : result;
}

} // namespace

Value depthwise(LoweringBuilder &b, const Convolution &conv) {
  return Depthwise(b, conv).run();
}

} // namespace importer
} // namespace anabranch
