//===- TransposedConvolution.cpp - as one convolution for each phase ------===//
// SPDX-License-Identifier: Apache-2.0
//
// Point o of the result is the sum over all taps k and inputs i with
// o + padding = i * stride + k * dilation. Points whose o + padding leaves the
// same remainder by the stride, a phase, see the same taps, so that each phase
// is a plain convolution of stride one with some of the taps, in reverse. No
// product is with an inserted zero.
//
// Before: %r = anabranch.aten "convolution"(%x, %w, %b) {transposed, stride s}
// After:  for each phase p: %rp = convolution(%x padded or cut, taps of %w, %b)
//         %r = every %rp inserted with strides s

#include "import/lowering/Contract.h"
#include "import/lowering/Convolution.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Windows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// Each phase is a kernel of its own.
constexpr int64_t mostPhases = 16;

/// With fewer input points, ordering a live weight's taps costs more than a
/// fifth of the products.
constexpr int64_t fewPoints = 1024, fewElements = 8192;

/// One dimension of a phase.
struct PhaseDim {
  int64_t first = 0, count = 0; ///< points of the result, `stride` apart
  /// The taps of the weight. If there are none, the points are zero.
  int64_t firstTap = 0, tapStep = 1, taps = 0;
  int64_t dilation = 1;
  int64_t low = 0, high = 0; ///< padding of the input; negative: cut off
};

using Phase = SmallVector<PhaseDim>;

class Transposed {
public:
  Transposed(LoweringBuilder &b, const Convolution &conv)
      : b(b), conv(conv), channels(conv.weight.size(0) / conv.groups),
        filters(conv.weight.size(1)) {}

  Lowered run();

private:
  SmallVector<PhaseDim> phasesOf(int64_t dim) const;
  SmallVector<Phase> phases() const;
  Sizes sizesOf(const Phase &phase) const;
  Value resultOf(const Phase &phase);
  Operand inputOf(const Phase &phase);
  Operand weightOf(const Phase &phase);
  Value withoutTaps(const Phase &phase);

  LoweringBuilder &b;
  const Convolution &conv;
  const int64_t channels, filters; ///< of one group
};

} // namespace

SmallVector<PhaseDim> Transposed::phasesOf(int64_t dim) const {
  int64_t stride = conv.stride[dim], padding = conv.padding[dim];
  int64_t dilation = conv.dilation[dim], window = conv.window(dim);
  int64_t input = conv.input.size(2 + dim);
  int64_t output = *getConstantIntValue(conv.sizes[2 + dim]);
  SmallVector<PhaseDim> all;
  for (int64_t rest = 0; rest < stride; ++rest) {
    PhaseDim phase;
    // The first point is quotient * stride + rest - padding.
    int64_t quotient = llvm::divideCeilSigned(padding - rest, stride);
    phase.first = quotient * stride + rest - padding;
    if (phase.first >= output)
      continue;
    phase.count = (output - 1 - phase.first) / stride + 1;
    SmallVector<int64_t> taps, back; // `back`: inputs before the quotient
    for (int64_t tap = 0; tap < window; ++tap)
      if (tap * dilation % stride == rest) {
        taps.push_back(tap);
        back.push_back((tap * dilation - rest) / stride);
      }
    // The outermost points may see no input.
    if (!taps.empty() && quotient - back.back() < input &&
        quotient + phase.count > back.front()) {
      phase.firstTap = taps.front();
      phase.taps = taps.size();
      phase.low = back.back() - quotient;
      phase.high = quotient + phase.count - back.front() - input;
    }
    if (taps.size() > 1) {
      phase.tapStep = taps[1] - taps[0];
      phase.dilation = back[1] - back[0];
    }
    all.push_back(phase);
  }
  return all;
}

/// All combinations of the dimensions' phases.
SmallVector<Phase> Transposed::phases() const {
  SmallVector<Phase> all = {{}};
  for (int64_t dim = 0; dim < conv.spatial; ++dim) {
    SmallVector<Phase> longer;
    for (const Phase &phase : all)
      for (const PhaseDim &next : phasesOf(dim)) {
        longer.push_back(phase);
        longer.back().push_back(next);
      }
    all = std::move(longer);
  }
  return all;
}

Sizes Transposed::sizesOf(const Phase &phase) const {
  Sizes sizes = {conv.sizes[0], conv.sizes[1]};
  for (const PhaseDim &dim : phase)
    sizes.push_back(b.indexAttr(dim.count));
  return sizes;
}

Operand Transposed::inputOf(const Phase &phase) {
  Sizes sizes = b.sizesOf(conv.input.value);
  Sizes offsets(sizes.size(), b.indexAttr(0));
  Sizes strides(sizes.size(), b.indexAttr(1));
  SmallVector<int64_t> low, high;
  bool cuts = false;
  for (auto [dim, p] : llvm::enumerate(phase)) {
    int64_t before = std::max<int64_t>(-p.low, 0);
    int64_t after = std::max<int64_t>(-p.high, 0);
    cuts |= before + after > 0;
    offsets[2 + dim] = b.indexAttr(before);
    sizes[2 + dim] = b.indexAttr(conv.input.size(2 + dim) - before - after);
    low.push_back(std::max<int64_t>(p.low, 0));
    high.push_back(std::max<int64_t>(p.high, 0));
  }
  Operand input = conv.input;
  if (cuts)
    input.value =
        b.create<tensor::ExtractSliceOp>(input.value, offsets, sizes, strides);
  input.value = padSpatial(b, input, low, high, 0);
  return input;
}

/// [groups * filters, channels, taps...], with the taps in reverse order.
Operand Transposed::weightOf(const Phase &phase) {
  Sizes split = {b.indexAttr(conv.groups), b.indexAttr(filters),
                 b.indexAttr(channels)};
  Sizes whole = {b.indexAttr(conv.groups * filters), b.indexAttr(channels)};
  for (const PhaseDim &dim : phase) {
    split.push_back(b.indexAttr(dim.taps));
    whole.push_back(b.indexAttr(dim.taps));
  }
  Value taps = gatherElements(
      b, conv.weight.value, split, {},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value>) {
        Value group = scaleIndex(body, position[0], channels);
        Indices source = {body.create<arith::AddIOp>(group, position[2]),
                          position[1]};
        for (auto [dim, p] : llvm::enumerate(phase)) {
          Value last = body.create<arith::ConstantIndexOp>(
              p.firstTap + (p.taps - 1) * p.tapStep);
          Value back = scaleIndex(body, position[3 + dim], p.tapStep);
          source.push_back(body.create<arith::SubIOp>(last, back));
        }
        return source;
      });
  return b.tensor(reshape(b.builder, b.loc, taps, whole), conv.weight.dtype);
}

/// The result of a phase without taps: the bias, or zero.
Value Transposed::withoutTaps(const Phase &phase) {
  Sizes sizes = sizesOf(phase);
  if (!conv.bias)
    return b.fill(sizes, b.resultDType(), 0);
  Sizes column(2 + conv.spatial, b.indexAttr(1));
  column[1] = conv.sizes[1];
  return broadcastTo(b, reshape(b.builder, b.loc, conv.bias.value, column),
                     sizes);
}

Value Transposed::resultOf(const Phase &phase) {
  if (llvm::any_of(phase, [](const PhaseDim &dim) { return dim.taps == 0; }))
    return withoutTaps(phase);
  Convolution plain = conv;
  plain.transposed = false;
  plain.input = inputOf(phase);
  plain.weight = weightOf(phase);
  plain.sizes = sizesOf(phase);
  plain.stride.assign(conv.spatial, 1);
  plain.padding.assign(conv.spatial, 0);
  for (auto [dim, p] : llvm::enumerate(phase))
    plain.dilation[dim] = p.dilation;
  return convolve(b, plain);
}

Lowered Transposed::run() {
  for (int64_t dim = 0; dim < conv.spatial; ++dim)
    if (conv.input.type().isDynamicDim(2 + dim) ||
        !getConstantIntValue(conv.sizes[2 + dim]))
      return b.refuse("a transposed convolution of a symbolic image");
  int64_t points = 1;
  for (int64_t dim = 0; dim < conv.spatial; ++dim)
    points *= conv.input.size(2 + dim);
  if (!conv.weight.isSteady() && points < fewPoints &&
      conv.weight.type().getNumElements() > fewElements)
    return b.refuse("a transposed convolution of few points, whose weight is "
                    "not frozen");
  SmallVector<Phase> all = phases();
  if (all.size() > mostPhases)
    return b.refuse("a transposed convolution of very large strides");
  if (all.size() == 1)
    return lowered(resultOf(all.front()));
  Value result = b.empty(conv.sizes, b.resultDType());
  Sizes strides(2, b.indexAttr(1));
  for (int64_t stride : conv.stride)
    strides.push_back(b.indexAttr(stride));
  for (const Phase &phase : all) {
    Sizes offsets(2, b.indexAttr(0));
    for (const PhaseDim &dim : phase)
      offsets.push_back(b.indexAttr(dim.first));
    result = b.create<tensor::InsertSliceOp>(resultOf(phase), result, offsets,
                                             sizesOf(phase), strides);
  }
  return lowered(result);
}

Lowered convolveTransposed(LoweringBuilder &b, const Convolution &conv) {
  return Transposed(b, conv).run();
}

} // namespace importer
} // namespace anabranch
