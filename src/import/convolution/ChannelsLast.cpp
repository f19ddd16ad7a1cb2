//===- ChannelsLast.cpp - convolutions whose points are rows --------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: %r = anabranch.aten "convolution"(%x, %w, %b) {...}
// After:  %t = %x with its channels last, a view
//         %p = %t inserted into zeros, where there is padding
//         %c[n, p..., (g,) k] = the inputs of output point p, a view whose
//                               depth k runs over taps, then channels
//         %s[n, p..., (g,) f] = contraction(%c, %w[(g,) f, k])
//         %r = %s + %b, rounded once, with its channels second: a view
//
// The points of all images are the rows of one product and the frozen weight is
// its packed right operand, as in a linear layer. A window is one run of
// channels for each tap. SinkChannels moves the views at both ends after the
// operators that follow, so nothing is transposed between two convolutions.

#include "import/lowering/Contract.h"
#include "import/lowering/Convolution.h"
#include "import/lowering/Shapes.h"
#include "import/lowering/Windows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// With fewer channels most lanes of a vector stay empty.
constexpr int64_t fewestChannels = 8;

/// Whether a tensor is computed from steady arguments alone.
bool isSteadyValue(const Operand &tensor) {
  Operation *op = tensor.value.getDefiningOp();
  if (!op)
    return tensor.isSteady();
  // A gather's body reads tensors that are no operands, so these count too.
  llvm::SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);
  return !isa<ir::AtenOp>(op) && llvm::all_of(inputs, [&](Value input) {
    Operand operand = tensor;
    operand.value = input;
    return !isa<RankedTensorType>(input.getType()) || isSteadyValue(operand);
  });
}

class ChannelsLast {
public:
  ChannelsLast(LoweringBuilder &b, const Convolution &conv)
      : b(b), conv(conv), isGrouped(conv.groups > 1) {}

  Value run();

private:
  Value input();
  Value columns();
  Value weight();
  AffineMap windowMap() const;
  bool readsEachPointOnce() const;
  Sizes points() const { return Sizes(ArrayRef(conv.sizes).drop_front(2)); }
  /// The sizes [N, points..., (G,)], followed by `last`.
  Sizes rowsAnd(ArrayRef<OpFoldResult> last) const;

  LoweringBuilder &b;
  const Convolution &conv;
  const bool isGrouped;
};

/// [0, 2, ..., rank - 1, 1]
SmallVector<int64_t> channelsLastOrder(int64_t rank) {
  SmallVector<int64_t> order = {0};
  for (int64_t dim = 2; dim < rank; ++dim)
    order.push_back(dim);
  order.push_back(1);
  return order;
}

Sizes ChannelsLast::rowsAnd(ArrayRef<OpFoldResult> last) const {
  Sizes sizes = {conv.sizes[0]};
  llvm::append_range(sizes, points());
  if (isGrouped)
    sizes.push_back(b.indexAttr(conv.groups));
  llvm::append_range(sizes, last);
  return sizes;
}

/// The padded input, channels last.
Value ChannelsLast::input() {
  Value channelsLast = moveChannels(b, conv.input.value, ir::Channels::Last);
  SmallVector<int64_t> padding = {0};
  llvm::append_range(padding, conv.padding);
  padding.push_back(0);
  return padSpatial(b, b.tensor(channelsLast, conv.input.dtype), padding,
                    padding, conv.padValue);
}

/// Whether no input point is in several windows: the window is one point wide.
bool ChannelsLast::readsEachPointOnce() const {
  return llvm::all_of(llvm::seq<int64_t>(0, conv.spatial),
                      [&](int64_t dim) { return conv.window(dim) == 1; });
}

/// Where an output point reads the channels of a tap: (n, points..., (g,)
/// taps..., c) -> (n, points and taps..., g and c).
AffineMap ChannelsLast::windowMap() const {
  auto d = [&](unsigned loop) { return b.builder.getAffineDimExpr(loop); };
  bool hasTaps = !readsEachPointOnce();
  unsigned group = 1 + conv.spatial, tap = group + isGrouped;
  unsigned channel = tap + (hasTaps ? conv.spatial : 0);
  SmallVector<AffineExpr> source = {d(0)};
  for (int64_t dim = 0; dim < conv.spatial; ++dim) {
    AffineExpr point = d(1 + dim) * conv.stride[dim];
    source.push_back(hasTaps ? point + d(tap + dim) * conv.dilation[dim]
                             : point);
  }
  AffineExpr last = d(channel);
  source.push_back(isGrouped ? d(group) * conv.channels() + last : last);
  return AffineMap::get(channel + 1, 0, source, b.context());
}

/// [N, points..., (G,) K]
Value ChannelsLast::columns() {
  Value image = input();
  OpFoldResult channels = b.indexAttr(conv.channels());
  if (readsEachPointOnce()) {
    AffineMap map = windowMap();
    if (map.isIdentity())
      return image;
    Value view = readThrough(b, image, map, rowsAnd({channels}));
    ir::markWindows(view.getDefiningOp());
    return view;
  }
  Sizes inner;
  for (int64_t dim = 0; dim < conv.spatial; ++dim)
    inner.push_back(b.indexAttr(conv.window(dim)));
  inner.push_back(channels);
  Value windows = readThrough(b, image, windowMap(), rowsAnd(inner));
  ir::markWindows(windows.getDefiningOp());
  return reshape(b.builder, b.loc, windows,
                 rowsAnd({b.indexAttr(conv.channels() * conv.taps())}));
}

/// [(G,) F, K], the depth in the same order as in the columns.
Value ChannelsLast::weight() {
  Value channelsLast =
      transpose(b, conv.weight.value, channelsLastOrder(conv.weight.rank()));
  Sizes sizes = {b.indexAttr(conv.filters()),
                 b.indexAttr(conv.channels() * conv.taps())};
  if (isGrouped)
    sizes.insert(sizes.begin(), b.indexAttr(conv.groups));
  return reshape(b.builder, b.loc, channelsLast, sizes);
}

Value ChannelsLast::run() {
  // Loops: n, points..., (g,) f, k.
  unsigned group = 1 + conv.spatial, f = group + isGrouped, k = f + 1;
  auto map = [&](bool withRows, ArrayRef<unsigned> last) {
    SmallVector<unsigned> dims;
    if (withRows)
      llvm::append_range(dims, llvm::seq<unsigned>(0, group));
    if (isGrouped)
      dims.push_back(group);
    llvm::append_range(dims, last);
    return AffineMap::getMultiDimMapWithTargets(k + 1, dims, b.context());
  };
  DType dtype = conv.input.dtype, sumType = accumulatorOf(dtype);
  Sizes sizes = rowsAnd({b.indexAttr(conv.filters())});
  Value sum = contract(b.builder, b.loc, {columns(), map(true, {k})},
                       {weight(), map(false, {f, k})}, map(true, {f}), sizes,
                       dtype, conv.weight.dtype);
  Operand total = b.tensor(sum, sumType);
  Value result;
  if (conv.bias) {
    Operand bias = conv.bias;
    bias.positions = {int64_t(f)};
    if (isGrouped) {
      bias.value =
          reshape(b.builder, b.loc, bias.value,
                  {b.indexAttr(conv.groups), b.indexAttr(conv.filters())});
      bias.positions = {int64_t(group), int64_t(f)};
    }
    result = b.elementwise({total, bias}, sumType, conv.result, sizes,
                           [](Body &, ArrayRef<Num> x) { return x[0] + x[1]; });
  } else {
    result = b.convert(total, conv.result);
  }
  Sizes flat = {conv.sizes[0]};
  llvm::append_range(flat, points());
  flat.push_back(conv.sizes[1]);
  result = reshape(b.builder, b.loc, result, flat);
  return moveChannels(b, result, ir::Channels::Second);
}

} // namespace

bool prefersChannelsLast(const Convolution &conv, int64_t channels) {
  auto isKnown = [](OpFoldResult size) {
    return getConstantIntValue(size).has_value();
  };
  return channels >= fewestChannels &&
         llvm::all_of(ArrayRef(conv.sizes).drop_front(2), isKnown) &&
         isSteadyValue(conv.weight);
}

Value convolveChannelsLast(LoweringBuilder &b, const Convolution &conv) {
  return ChannelsLast(b, conv).run();
}

} // namespace importer
} // namespace anabranch
