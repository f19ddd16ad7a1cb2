//===- Pooling.cpp - maxima and means of windows --------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// A window of static size is unrolled: one elementwise generic reads each of
// its points through a strided slice. So a pool fuses with the operators around
// it.

#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Windows.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include <cmath>
#include <limits>
#include <numeric>

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// PyTorch runs means of larger windows, and maxima whose positions are asked
/// for: unrolled, they would make a long kernel of little use.
static constexpr int64_t maxPoints = 128;
/// Larger windows have their maxima one dimension after another: 3 x 3 points
/// take four comparisons in place of eight.
static constexpr int64_t joinedPoints = 8;

namespace {
/// The arguments of a pool of the last dimensions, one number for each.
struct Pool {
  Operand input;
  SmallVector<int64_t> window, stride, padding, dilation;
  bool ceilMode = false;
  Sizes sizes;

  size_t dims() const { return window.size(); }
  /// The tensor's dimension that is the pool's first.
  size_t first() const { return sizes.size() - dims(); }
  /// The number of points of a window.
  int64_t points() const {
    return std::accumulate(window.begin(), window.end(), int64_t(1),
                           std::multiplies<>());
  }
};

/// A point of the window, and the input shifted so that each output meets this
/// point.
struct Tap {
  SmallVector<int64_t> place;
  Operand values;
};
} // namespace

/// An argument of one number for each dimension, or one for all.
static std::optional<SmallVector<int64_t>>
numbersArg(ir::AtenOp op, StringRef name, size_t dims) {
  auto values = op.getIntListArg(name);
  if (values && values->size() == 1)
    values->resize(dims, values->front());
  if (!values || values->size() != dims)
    return std::nullopt;
  return values;
}

static FailureOr<Pool> poolOf(ir::AtenOp op, LoweringBuilder &b, size_t dims) {
  Pool pool;
  pool.input = b.operand("self");
  auto window = numbersArg(op, "kernel_size", dims);
  auto padding = numbersArg(op, "padding", dims);
  if (!window || !padding)
    return b.refuse("the window or its padding is symbolic");
  pool.window = *window;
  pool.padding = *padding;
  pool.stride = *window;
  if (auto list = op.getIntListArg("stride"); !list || !list->empty()) {
    auto stride = numbersArg(op, "stride", dims);
    if (!stride)
      return b.refuse("the stride is symbolic");
    pool.stride = *stride;
  }
  pool.dilation.resize(dims, 1);
  if (op.getArg("dilation")) {
    auto dilation = numbersArg(op, "dilation", dims);
    if (!dilation)
      return b.refuse("the dilation is symbolic");
    pool.dilation = *dilation;
  }
  pool.ceilMode = op.getBoolArg("ceil_mode").value_or(false);
  pool.sizes = op.getResultSizes();
  if (pool.input.rank() <= int64_t(dims))
    return b.refuse("no image");
  return pool;
}

/// The input padded with `value` so that every window lies inside. In ceil mode
/// windows reach beyond the padding, by less than a stride.
static Value paddedImage(LoweringBuilder &b, const Pool &pool, double value) {
  SmallVector<int64_t> high = pool.padding;
  for (size_t dim = 0; pool.ceilMode && dim < pool.dims(); ++dim) {
    int64_t size = pool.input.size(pool.first() + dim);
    auto outputs = getConstantIntValue(pool.sizes[pool.first() + dim]);
    if (size < 0 || !outputs) {
      high[dim] += pool.stride[dim] - 1;
      continue;
    }
    int64_t extent = (*outputs - 1) * pool.stride[dim] +
                     (pool.window[dim] - 1) * pool.dilation[dim] + 1;
    high[dim] = std::max(high[dim], extent - size - pool.padding[dim]);
  }
  return padSpatial(b, pool.input, pool.padding, high, value);
}

/// Every point of the window, in row-major order.
static FailureOr<SmallVector<Tap>> tapsOf(LoweringBuilder &b, const Pool &pool,
                                          double padding, DType dtype) {
  if (pool.points() > maxPoints)
    return b.refuse("a window too large to unroll");
  Value padded = paddedImage(b, pool, padding);
  SmallVector<Tap> taps;
  for (int64_t number = 0; number < pool.points(); ++number) {
    Tap tap;
    tap.place.resize(pool.dims());
    Sizes offsets(pool.sizes.size(), b.indexAttr(0));
    Sizes strides(pool.sizes.size(), b.indexAttr(1));
    int64_t rest = number;
    for (size_t dim = pool.dims(); dim-- > 0; rest /= pool.window[dim]) {
      tap.place[dim] = rest % pool.window[dim];
      offsets[pool.first() + dim] =
          b.indexAttr(tap.place[dim] * pool.dilation[dim]);
      strides[pool.first() + dim] = b.indexAttr(pool.stride[dim]);
    }
    Value slice =
        b.create<tensor::ExtractSliceOp>(padded, offsets, pool.sizes, strides);
    tap.values = b.tensor(slice, dtype);
    taps.push_back(std::move(tap));
  }
  return taps;
}

static SmallVector<Operand> operandsOf(ArrayRef<Tap> taps) {
  SmallVector<Operand> operands;
  for (const Tap &tap : taps)
    operands.push_back(tap.values);
  return operands;
}

/// Reduces the taps of each window to one number: `combine` from the first tap
/// on, then `finish`.
static Value foldTaps(LoweringBuilder &b, const Pool &pool, ArrayRef<Tap> taps,
                      llvm::function_ref<Num(Num, Num)> combine,
                      llvm::function_ref<Num(Body &, Num)> finish) {
  DType dtype = b.resultDType();
  return b.elementwise(operandsOf(taps), dtype, dtype, pool.sizes,
                       [&](Body &body, ArrayRef<Num> x) {
                         Num result = x[0];
                         for (Num value : x.drop_front())
                           result = combine(result, value);
                         return finish(body, result);
                       });
}

/// The sizes of the unpadded image.
static SmallVector<Value> imageSizes(LoweringBuilder &b, const Pool &pool) {
  SmallVector<Value> sizes;
  for (size_t dim = 0; dim < pool.dims(); ++dim)
    sizes.push_back(
        b.indexValue(b.sizeOf(pool.input.value, pool.first() + dim)));
  return sizes;
}

/// The position of the first maximum in the unpadded image, in row-major order.
/// `sizes` are those of the image.
static Value argMax(LoweringBuilder &b, const Pool &pool, ArrayRef<Tap> taps,
                    ArrayRef<Value> sizes) {
  auto place = [&](Body &body, const Tap &tap, size_t dim) {
    Num start = s::index(body, pool.first() + dim);
    return start * start.constant(pool.stride[dim]) +
           start.constant(tap.place[dim] * pool.dilation[dim] -
                          pool.padding[dim]);
  };
  DType integer = b.resultDType(1);
  auto flat = [&](Body &body, const Tap &tap) {
    Num at = place(body, tap, 0);
    for (size_t dim = 1; dim < pool.dims(); ++dim)
      at = at * s::fromIndex(body, sizes[dim], integer) + place(body, tap, dim);
    return at;
  };
  auto isInside = [&](Body &body, const Tap &tap) {
    Num first = place(body, tap, 0), zero = first.constant(0);
    Num inside = first >= zero;
    for (size_t dim = 1; dim < pool.dims(); ++dim)
      inside = inside & (place(body, tap, dim) >= zero);
    return inside;
  };
  return b.elementwiseMixed(operandsOf(taps), integer, pool.sizes,
                            [&](Body &body, ArrayRef<Num> x) {
                              // A point of the padding loses against every
                              // point of the image. It only stays until the
                              // first point of the image.
                              Num best = x[0], at = flat(body, taps[0]);
                              Num found = isInside(body, taps[0]);
                              for (size_t i = 1; i < x.size(); ++i) {
                                Num wins = (x[i] > best) | s::isNan(x[i]);
                                Num inside = isInside(body, taps[i]);
                                wins = inside & (wins | !found);
                                best = s::select(wins, x[i], best);
                                at = s::select(wins, flat(body, taps[i]), at);
                                found = found | inside;
                              }
                              return at;
                            });
}

/// A number that no element of the dtype is less than.
static double leastOf(DType dtype) {
  if (dtype.isFloat())
    return -std::numeric_limits<double>::infinity();
  return dtype.isUnsigned ? 0 : -std::ldexp(1.0, int(dtype.width()) - 1);
}

/// The maxima of windows, one dimension after another.
static FailureOr<Value> maximaByDimension(LoweringBuilder &b, Pool pool) {
  DType dtype = b.resultDType();
  Sizes results = pool.sizes;
  pool.sizes = b.sizesOf(pool.input.value);
  Pool all = pool;
  for (size_t dim = 0; dim < pool.dims(); ++dim) {
    pool.window.assign(pool.dims(), 1);
    pool.stride = pool.dilation = pool.window;
    pool.padding.assign(pool.dims(), 0);
    pool.window[dim] = all.window[dim];
    pool.stride[dim] = all.stride[dim];
    pool.padding[dim] = all.padding[dim];
    pool.dilation[dim] = all.dilation[dim];
    pool.sizes[pool.first() + dim] = results[pool.first() + dim];
    FailureOr<SmallVector<Tap>> taps = tapsOf(b, pool, leastOf(dtype), dtype);
    if (failed(taps))
      return failure();
    Value maxima = foldTaps(b, pool, *taps, s::maximum,
                            [](Body &, Num best) { return best; });
    pool.input = b.tensor(maxima, dtype);
  }
  return pool.input.value;
}

static Lowered lowerMaxPool(ir::AtenOp op, LoweringBuilder &b, size_t dims) {
  FailureOr<Pool> pool = poolOf(op, b, dims);
  if (failed(pool))
    return failure();
  DType dtype = b.resultDType();
  bool wantsPlaces = op.getNumResults() > 1 && !op.getResult(1).use_empty();
  if (pool->points() > joinedPoints && !wantsPlaces) {
    FailureOr<Value> maxima = maximaByDimension(b, *pool);
    if (failed(maxima))
      return failure();
    SmallVector<Value> results(op.getNumResults());
    results[0] = *maxima;
    return results;
  }
  FailureOr<SmallVector<Tap>> taps = tapsOf(b, *pool, leastOf(dtype), dtype);
  if (failed(taps))
    return failure();
  SmallVector<Value> results = {foldTaps(
      b, *pool, *taps, s::maximum, [](Body &, Num best) { return best; })};
  if (op.getNumResults() == 1)
    return results;
  results.emplace_back();
  if (wantsPlaces)
    results[1] = argMax(b, *pool, *taps, imageSizes(b, *pool));
  return results;
}

/// The number of points that the mean at this position divides by: those in the
/// image, and in its padding if that counts. `sizes` are those of the image.
static Num pointsAt(Body &body, const Pool &pool, ArrayRef<Value> sizes,
                    bool countsPadding) {
  std::optional<Num> points;
  for (size_t dim = 0; dim < pool.dims(); ++dim) {
    Num position = s::index(body, pool.first() + dim);
    Num padding = position.constant(pool.padding[dim]);
    Num border = countsPadding ? padding : position.constant(0);
    Num start = position * position.constant(pool.stride[dim]) - padding;
    Num end =
        s::minimum(start + position.constant(pool.window[dim]),
                   s::fromIndex(body, sizes[dim], position.dtype) + border);
    Num length = end - s::maximum(start, -border);
    points = points ? *points * length : length;
  }
  // A window of padding alone has the mean zero.
  return s::maximum(*points, points->constant(1));
}

/// The sum of the window over its number of points, which depends on the
/// position if padding does not count, and in windows beyond the padding's end.
static Lowered lowerAvgPool(ir::AtenOp op, LoweringBuilder &b, size_t dims) {
  FailureOr<Pool> pool = poolOf(op, b, dims);
  if (failed(pool))
    return failure();
  DType dtype = b.resultDType();
  bool countsPadding = op.getBoolArg("count_include_pad").value_or(true);
  bool pads = llvm::any_of(pool->padding, [](int64_t pad) { return pad != 0; });
  if (!dtype.isFloat())
    return b.refuse("a pool of integers");
  auto divisor = op.getIntArg("divisor_override");
  bool varies = !divisor && (pool->ceilMode || (pads && !countsPadding));
  auto count = double(divisor.value_or(pool->points()));
  FailureOr<SmallVector<Tap>> taps = tapsOf(b, *pool, 0, dtype);
  if (failed(taps))
    return failure();
  SmallVector<Value> sizes;
  if (varies)
    sizes = imageSizes(b, *pool);
  return lowered(foldTaps(
      b, *pool, *taps, [](Num a, Num b) { return a + b; },
      [&](Body &body, Num sum) {
        if (!varies)
          return sum / count;
        Num points = pointsAt(body, *pool, sizes, countsPadding);
        return sum / s::cast(points, sum.dtype);
      }));
}

/// Windows that divide the image evenly: a mean over dimensions that are split
/// off.
static Lowered lowerAdaptiveAvgPool(ir::AtenOp op, LoweringBuilder &b,
                                    size_t dims) {
  Operand input = b.operand("self");
  Sizes outputs = op.getResultSizes(), sizes = b.sizesOf(input.value);
  int64_t first = input.rank() - int64_t(dims);
  Sizes split(sizes.begin(), sizes.begin() + first);
  double count = 1;
  SmallVector<int64_t> reduced;
  for (int64_t dim = first; dim < input.rank(); ++dim) {
    auto output = getConstantIntValue(outputs[dim]);
    int64_t size = input.size(dim);
    if (!output || size < 0 || *output == 0 || size % *output != 0)
      return b.refuse("windows of several sizes");
    split.push_back(b.indexAttr(*output));
    reduced.push_back(int64_t(split.size()));
    int64_t members = size / *output;
    split.push_back(b.indexAttr(members));
    count *= double(members);
  }
  DType dtype = b.resultDType(), math = dtype.math();
  if (!dtype.isFloat())
    return b.refuse("a pool of integers");
  Operand image =
      b.tensor(reshape(b.builder, b.loc, input.value, split), input.dtype);
  Value sum = b.reduce({image}, split, reduced, Combine::Add, math,
                       [](Body &, ArrayRef<Num> x) { return x[0]; });
  return lowered(
      b.elementwise({b.tensor(sum, math)}, math, dtype, outputs,
                    [&](Body &, ArrayRef<Num> x) { return x[0] / count; }));
}

/// A lowering of a pool of so many dimensions.
template <Lowered (*lower)(ir::AtenOp, LoweringBuilder &, size_t), size_t dims>
static Lowered of(ir::AtenOp op, LoweringBuilder &b) {
  return lower(op, b, dims);
}

void anabranch::importer::registerPooling(OpTable &table) {
  table.family("pool");
  table.add("max_pool2d_with_indices", of<lowerMaxPool, 2>,
            "T(2, 3, 8, 9), [3, 3], [2, 2], [1, 1]", Numbers);
  table.add("max_pool3d_with_indices", of<lowerMaxPool, 3>,
            "T(2, 3, 5, 6, 7), [3, 2, 3], [2, 2, 1], [1, 1, 0]", Numbers);
  table.add("max_pool2d", of<lowerMaxPool, 2>, "", Floats);
  table.add("max_pool3d", of<lowerMaxPool, 3>, "", Floats);
  table.add("avg_pool2d", of<lowerAvgPool, 2>, "T(2, 3, 8, 8), [2, 2]", Floats);
  table.add("avg_pool3d", of<lowerAvgPool, 3>, "T(2, 3, 4, 6, 6), [2, 3, 2]",
            Floats);
  table.add("_adaptive_avg_pool2d", of<lowerAdaptiveAvgPool, 2>,
            "T(2, 3, 8, 8), [4, 2]", Floats);
  table.add("_adaptive_avg_pool3d", of<lowerAdaptiveAvgPool, 3>,
            "T(2, 3, 4, 8, 8), [2, 4, 2]", Floats);
  table.add("adaptive_avg_pool2d", of<lowerAdaptiveAvgPool, 2>, "", Floats);
}
