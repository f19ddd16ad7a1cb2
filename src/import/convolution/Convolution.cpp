//===- Convolution.cpp - convolutions as contractions ---------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: %r = anabranch.aten "convolution"(%x, %w, %b) {...}
// After:  %p = %x inserted into zeros, where there is padding
//         %c[n, g, k, p] = the inputs of output point p in group g, a view
//         %s[n, g, f, p] = contraction(%w[g, f, k], %c[n, g, k, p])
//         %r = %s + %b, rounded once
//
// Where the window is one point wide and every point is used, %c is %x itself.
// Where each channel has one filter, see Depthwise.cpp; where the weight is
// steady, ChannelsLast.cpp, or Winograd.cpp for windows of 3x3 in f32; for
// transposed ones TransposedConvolution.cpp.

#include "import/lowering/Convolution.h"
#include "import/lowering/Contract.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Windows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// A list argument with one number for all dimensions, or with one for each.
static std::optional<SmallVector<int64_t>> perDim(ir::AtenOp op, StringRef name,
                                                  int64_t count) {
  auto values = op.getIntListArg(name);
  if (!values)
    return std::nullopt;
  if (values->size() == 1)
    values->assign(count, values->front());
  if (static_cast<int64_t>(values->size()) != count)
    return std::nullopt;
  return values;
}

FailureOr<Convolution> anabranch::importer::convolutionOf(ir::AtenOp op,
                                                          LoweringBuilder &b) {
  Convolution conv;
  conv.input = b.operand("input");
  conv.weight = b.operand("weight");
  conv.bias = b.operand("bias");
  auto transposed = op.getBoolArg("transposed");
  if (!transposed)
    return b.refuse("whether it is transposed is no literal");
  conv.transposed = *transposed;
  if (conv.input.rank() != conv.weight.rank() || conv.input.rank() < 3)
    return b.refuse("no batch of images");
  if (!conv.weight.type().hasStaticShape())
    return b.refuse("the weight's shape is symbolic");
  if (conv.input.dtype != conv.weight.dtype ||
      conv.input.dtype != b.resultDType())
    return b.refuse("operands of several dtypes");
  conv.spatial = conv.input.rank() - 2;
  auto stride = perDim(op, "stride", conv.spatial);
  auto padding = perDim(op, "padding", conv.spatial);
  auto dilation = perDim(op, "dilation", conv.spatial);
  auto groups = op.getIntArg("groups");
  if (!stride || !padding || !dilation || !groups)
    return b.refuse("stride, padding, dilation or groups are symbolic");
  conv.stride = *stride;
  conv.padding = *padding;
  conv.dilation = *dilation;
  conv.groups = *groups;
  conv.sizes = op.getResultSizes();
  conv.result = b.resultDType();
  return conv;
}

/// Whether output points and input points are the same.
static bool isPointwise(const Convolution &conv) {
  auto isOne = [](int64_t number) { return number == 1; };
  bool narrow =
      llvm::all_of(llvm::seq<int64_t>(0, conv.spatial),
                   [&](int64_t dim) { return conv.window(dim) == 1; });
  return narrow && llvm::all_of(conv.stride, isOne) &&
         llvm::all_of(conv.padding, [](int64_t pad) { return pad == 0; });
}

/// Where an output point reads a point of its window.
static AffineMap windowMap(LoweringBuilder &b, const Convolution &conv) {
  auto d = [&](unsigned loop) { return b.builder.getAffineDimExpr(loop); };
  SmallVector<AffineExpr> source = {d(0), d(1) * conv.channels() + d(2)};
  for (int64_t dim = 0; dim < conv.spatial; ++dim)
    source.push_back(d(3 + conv.spatial + dim) * conv.stride[dim] +
                     d(3 + dim) * conv.dilation[dim]);
  return AffineMap::get(3 + 2 * conv.spatial, 0, source, b.context());
}

/// [N, G, C, window..., out...]: the elements that each output point reads. For
/// a static shape it is a view, and the product reads through it.
static Value unroll(LoweringBuilder &b, const Convolution &conv,
                    ArrayRef<OpFoldResult> sizes) {
  Value padded =
      padSpatial(b, conv.input, conv.padding, conv.padding, conv.padValue);
  auto known = [](OpFoldResult size) {
    return getConstantIntValue(size).has_value();
  };
  if (llvm::all_of(ArrayRef(sizes).drop_front(), known))
    return readThrough(b, padded, windowMap(b, conv), sizes);
  return gatherElements(
      b, padded, sizes, {},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value>) {
        Indices source = {position[0]};
        Value first = scaleIndex(body, position[1], conv.channels());
        source.push_back(body.create<arith::AddIOp>(first, position[2]));
        for (int64_t dim = 0; dim < conv.spatial; ++dim) {
          Value tap = scaleIndex(body, position[3 + dim], conv.dilation[dim]);
          Value start = scaleIndex(body, position[3 + conv.spatial + dim],
                                   conv.stride[dim]);
          source.push_back(body.create<arith::AddIOp>(start, tap));
        }
        return source;
      });
}

/// [N, G, K, P], or [N, K, P] of a single group.
static Value columns(LoweringBuilder &b, const Convolution &conv,
                     ArrayRef<OpFoldResult> columnSizes) {
  if (isPointwise(conv))
    return reshape(b.builder, b.loc, conv.input.value, columnSizes);
  Sizes sizes = {conv.sizes[0], b.indexAttr(conv.groups),
                 b.indexAttr(conv.channels())};
  for (int64_t dim = 0; dim < conv.spatial; ++dim)
    sizes.push_back(b.indexAttr(conv.window(dim)));
  sizes.append(conv.sizes.begin() + 2, conv.sizes.end());
  return reshape(b.builder, b.loc, unroll(b, conv, sizes), columnSizes);
}

Value anabranch::importer::convolve(LoweringBuilder &b,
                                    const Convolution &conv) {
  if (isDepthwise(conv))
    return depthwise(b, conv);
  if (prefersChannelsLast(conv, conv.filters()))
    return prefersWinograd(conv) ? convolveWinograd(b, conv)
                                 : convolveChannelsLast(b, conv);
  int64_t depth = conv.channels() * conv.taps();
  OpFoldResult points = b.product(ArrayRef(conv.sizes).drop_front(2));
  OpFoldResult filters = b.indexAttr(conv.filters());
  Sizes columnSizes = {conv.sizes[0], b.indexAttr(depth), points};
  Sizes weightSizes = {filters, b.indexAttr(depth)};
  Sizes sumSizes = {conv.sizes[0], filters, points};
  // Loops: n, (g,) f, p, k.
  unsigned grouped = conv.groups > 1 ? 1 : 0;
  if (grouped) {
    OpFoldResult groups = b.indexAttr(conv.groups);
    columnSizes.insert(columnSizes.begin() + 1, groups);
    weightSizes.insert(weightSizes.begin(), groups);
    sumSizes.insert(sumSizes.begin() + 1, groups);
  }
  unsigned loops = 4 + grouped, f = loops - 3, p = f + 1, k = f + 2;
  auto map = [&](SmallVector<unsigned> dims, unsigned at) {
    if (grouped)
      dims.insert(dims.begin() + at, 1);
    return AffineMap::getMultiDimMapWithTargets(loops, dims, b.context());
  };
  DType dtype = conv.input.dtype, sumType = accumulatorOf(dtype);
  Value weight = reshape(b.builder, b.loc, conv.weight.value, weightSizes);
  Value sum = contract(b.builder, b.loc, {weight, map({f, k}, 0)},
                       {columns(b, conv, columnSizes), map({0, k, p}, 1)},
                       map({0, f, p}, 1), sumSizes, conv.weight.dtype, dtype);
  Sizes flat = {conv.sizes[0], conv.sizes[1], points};
  Operand total = b.tensor(reshape(b.builder, b.loc, sum, flat), sumType);
  Value result = total.value;
  if (conv.bias) {
    Operand bias = conv.bias;
    bias.value =
        reshape(b.builder, b.loc, bias.value, {conv.sizes[1], b.indexAttr(1)});
    result = b.elementwise({total, bias}, sumType, conv.result, flat,
                           [](Body &, ArrayRef<Num> x) { return x[0] + x[1]; });
  } else {
    result = b.convert(total, conv.result);
  }
  return reshape(b.builder, b.loc, result, conv.sizes);
}

static Lowered lowerConvolution(ir::AtenOp op, LoweringBuilder &b) {
  FailureOr<Convolution> conv = convolutionOf(op, b);
  if (failed(conv))
    return failure();
  if (conv->transposed)
    return convolveTransposed(b, *conv);
  return lowered(convolve(b, *conv));
}

void anabranch::importer::registerConvolution(OpTable &table) {
  table.family("conv");
  table.add("convolution", lowerConvolution,
            "T(2, 3, 9), T(4, 3, 3), T(4), [2], [1], [1], False, [0], 1;"
            "T(2, 4, 6, 7), T(6, 2, 3, 3), None, [1, 2], [1, 0], [1, 1], "
            "False, [0, 0], 2;"
            "T(2, 3, 6, 7), T(3, 1, 3, 2), T(3), [2, 1], [1, 2], [1, 2], "
            "False, [0, 0], 3;"
            "T(2, 3, 5), T(3, 4, 3), T(4), [2], [1], [1], True, [1], 1;"
            "T(2, 4, 3, 5), T(4, 3, 4, 2), None, [2, 3], [1, 0], [1, 1], True, "
            "[0, 1], 2",
            Floats);
}
