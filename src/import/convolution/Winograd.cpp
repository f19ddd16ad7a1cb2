//===- Winograd.cpp - convolutions of 3x3 with fewer products -------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Before: %r = anabranch.aten "convolution"(%x, %w, %b) {stride 1, 3x3}
// After:  %t = %x with its channels last and padded
//         %d[ij] = every second point of %t in both directions, from (i, j) on
//         %v[ab, tile, (g,) c] = sums and differences of four %d
//         %m[ab, tile, (g,) f] = contraction(%v, %u[ab, (g,) f, c])
//         %y[pq] = sums and differences of nine %m, + %b
//         %r = the four %y interleaved, with their channels second: a view
//
// A tile is 2x2 points of the result. It takes 16 products for each pair of
// channels, and 36 without the transformation: F(2x2, 3x3) of Lavin and Gray,
// "Fast Algorithms for Convolutional Neural Networks", 2015. %u is computed
// from the steady weight by `initialize`. Sums are shorter than those over all
// taps, so the result in f32 is about as exact. In bf16 and f16 it would not
// be: the sums of inputs would be rounded to a few digits before they are
// multiplied.

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

constexpr int64_t window = 3, tile = 2, span = tile + window - 1;

/// A sum of some of a line's values, each with a sign.
struct Sum {
  struct Term {
    int64_t at;
    bool negative;
  };
  SmallVector<Term> terms;
  bool isHalf = false; ///< times 1/2
};

/// The transformations of a line: of the input's four points, of the three
/// taps, and of four products. A square is transformed in both directions.
const Sum inputSums[span] = {{{{0, false}, {2, true}}},
                             {{{1, false}, {2, false}}},
                             {{{2, false}, {1, true}}},
                             {{{1, false}, {3, true}}}};
const Sum weightSums[span] = {{{{0, false}}},
                              {{{0, false}, {1, false}, {2, false}}, true},
                              {{{0, false}, {1, true}, {2, false}}, true},
                              {{{2, false}}}};
const Sum resultSums[tile] = {{{{0, false}, {1, false}, {2, false}}},
                              {{{1, false}, {2, true}, {3, true}}}};

/// Points of the result in one direction.
int64_t pointsOf(const Convolution &conv, int64_t dim) {
  return *getConstantIntValue(conv.sizes[2 + dim]);
}

/// Tiles of the result in one direction.
int64_t tilesOf(const Convolution &conv, int64_t dim) {
  return llvm::divideCeil(pointsOf(conv, dim), tile);
}

/// Tiles of all images.
int64_t allTilesOf(const Convolution &conv) {
  return conv.input.size(0) * tilesOf(conv, 0) * tilesOf(conv, 1);
}

/// Adds and subtracts what `valueAt` returns for each term of the sum.
template <typename F> Num add(const Sum &sum, F valueAt) {
  Num total = valueAt(0);
  for (size_t i = 1; i < sum.terms.size(); ++i)
    total = sum.terms[i].negative ? total - valueAt(i) : total + valueAt(i);
  return total;
}

class Winograd {
public:
  Winograd(LoweringBuilder &b, const Convolution &conv) : b(b), conv(conv) {}

  Value run();

private:
  /// A square of tensors of one size.
  using Square = llvm::function_ref<Value(int64_t row, int64_t column)>;

  Value input();
  Value weight();
  Value products();
  Value transformed(const Sum &down, const Sum &along, Square square,
                    ArrayRef<OpFoldResult> sizes, Operand bias = {});
  /// [16, sizes...]: the square of transformed squares.
  Value allOf(ArrayRef<Sum> sums, Square square, ArrayRef<OpFoldResult> sizes);

  Sizes numbers(ArrayRef<int64_t> values) const {
    return llvm::map_to_vector(values, [&](int64_t value) {
      return OpFoldResult(b.indexAttr(value));
    });
  }
  /// [16, outer..., (G,) last...]
  Value byGroups(Value squares, ArrayRef<int64_t> outer,
                 ArrayRef<int64_t> last);
  int64_t images() const { return conv.input.size(0); }
  int64_t allChannels() const { return conv.groups * conv.channels(); }
  int64_t allFilters() const { return conv.groups * conv.filters(); }
  int64_t tiles(int64_t dim) const { return tilesOf(conv, dim); }

  LoweringBuilder &b;
  const Convolution &conv;
  const DType dtype = conv.input.dtype;
  const bool isGrouped = conv.groups > 1;
};

/// The sum of the square's tensors that both lines name.
Value Winograd::transformed(const Sum &down, const Sum &along, Square square,
                            ArrayRef<OpFoldResult> sizes, Operand bias) {
  SmallVector<Operand> operands;
  for (const Sum::Term &row : down.terms)
    for (const Sum::Term &column : along.terms)
      operands.push_back(b.tensor(square(row.at, column.at), dtype));
  if (bias) {
    operands.push_back(bias);
    operands.back().positions = {int64_t(sizes.size()) - 1};
  }
  double factor = (down.isHalf ? 0.5 : 1) * (along.isHalf ? 0.5 : 1);
  return b.elementwise(operands, dtype, dtype, sizes,
                       [&](Body &body, ArrayRef<Num> x) {
                         Num total = add(down, [&](size_t row) {
                           return add(along, [&](size_t column) {
                             return x[row * along.terms.size() + column];
                           });
                         });
                         if (factor != 1)
                           total = total * s::constant(body, dtype, factor);
                         return bias ? total + x.back() : total;
                       });
}

Value Winograd::allOf(ArrayRef<Sum> sums, Square square,
                      ArrayRef<OpFoldResult> sizes) {
  Sizes outer = {b.indexAttr(span * span)};
  llvm::append_range(outer, sizes);
  Value all = b.empty(outer, dtype);
  for (int64_t row = 0; row < span; ++row)
    for (int64_t column = 0; column < span; ++column)
      all = insertAt(b, transformed(sums[row], sums[column], square, sizes),
                     all, {0}, {row * span + column});
  return all;
}

Value Winograd::byGroups(Value squares, ArrayRef<int64_t> outer,
                         ArrayRef<int64_t> last) {
  SmallVector<int64_t> sizes = {span * span};
  llvm::append_range(sizes, outer);
  if (isGrouped)
    sizes.push_back(conv.groups);
  llvm::append_range(sizes, last);
  return reshape(b.builder, b.loc, squares, numbers(sizes));
}

/// [16, tiles, (G,) C]
Value Winograd::input() {
  Value channelsLast = moveChannels(b, conv.input.value, ir::Channels::Last);
  SmallVector<int64_t> low = {0}, high = {0};
  for (int64_t dim = 0; dim < conv.spatial; ++dim) {
    int64_t size = conv.input.size(2 + dim);
    low.push_back(conv.padding[dim]);
    high.push_back(tiles(dim) * tile + window - 1 - conv.padding[dim] - size);
  }
  low.push_back(0);
  high.push_back(0);
  Value padded = padSpatial(b, b.tensor(channelsLast, dtype), low, high, 0);
  Sizes sizes = numbers({images(), tiles(0), tiles(1), allChannels()});
  Value slices[span][span];
  for (int64_t row = 0; row < span; ++row)
    for (int64_t column = 0; column < span; ++column)
      slices[row][column] =
          b.create<tensor::ExtractSliceOp>(padded, numbers({0, row, column, 0}),
                                           sizes, numbers({1, tile, tile, 1}));
  Value all = allOf(
      inputSums,
      [&](int64_t row, int64_t column) { return slices[row][column]; }, sizes);
  return byGroups(all, {allTilesOf(conv)}, {conv.channels()});
}

/// [16, (G,) F, C]
Value Winograd::weight() {
  int64_t filters = allFilters(), channels = conv.channels();
  auto type =
      RankedTensorType::get({filters, channels}, b.builder.getF32Type());
  auto tap = [&](int64_t row, int64_t column) -> Value {
    return b.create<tensor::ExtractSliceOp>(
        type, conv.weight.value, numbers({0, 0, row, column}),
        numbers({filters, channels, 1, 1}), numbers({1, 1, 1, 1}));
  };
  Value all = allOf(weightSums, tap, numbers({filters, channels}));
  return byGroups(all, {}, {conv.filters(), channels});
}

/// [16, tiles, (G,) F]
Value Winograd::products() {
  // Loops: square, tile, (g,) f, c.
  unsigned f = isGrouped ? 3 : 2, c = f + 1;
  auto map = [&](bool withTiles, ArrayRef<unsigned> last) {
    SmallVector<unsigned> dims = {0};
    if (withTiles)
      dims.push_back(1);
    if (isGrouped)
      dims.push_back(2);
    llvm::append_range(dims, last);
    return AffineMap::getMultiDimMapWithTargets(c + 1, dims, b.context());
  };
  Sizes sizes = numbers({span * span, allTilesOf(conv)});
  if (isGrouped)
    sizes.push_back(b.indexAttr(conv.groups));
  sizes.push_back(b.indexAttr(conv.filters()));
  return contract(b.builder, b.loc, {input(), map(true, {c})},
                  {weight(), map(false, {f, c})}, map(true, {f}), sizes, dtype);
}

Value Winograd::run() {
  Sizes points = numbers({images(), tiles(0), tiles(1), allFilters()});
  Sizes squares = {b.indexAttr(span * span)};
  llvm::append_range(squares, points);
  Value all = reshape(b.builder, b.loc, products(), squares);
  auto type = typeOf(points, b.builder.getF32Type());
  auto product = [&](int64_t row, int64_t column) -> Value {
    Sizes offsets(squares.size(), b.indexAttr(0));
    Sizes sizes = squares, strides(squares.size(), b.indexAttr(1));
    offsets[0] = b.indexAttr(row * span + column);
    sizes[0] = b.indexAttr(1);
    return b.create<tensor::ExtractSliceOp>(type, all, offsets, sizes, strides);
  };
  Value result = b.empty(
      numbers({images(), tiles(0), tile, tiles(1), tile, allFilters()}), dtype);
  for (int64_t row = 0; row < tile; ++row)
    for (int64_t column = 0; column < tile; ++column)
      result = insertAt(b,
                        transformed(resultSums[row], resultSums[column],
                                    product, points, conv.bias),
                        result, {2, 4}, {row, column});
  result = reshape(
      b.builder, b.loc, result,
      numbers({images(), tiles(0) * tile, tiles(1) * tile, allFilters()}));
  Sizes sizes = {conv.sizes[0], conv.sizes[2], conv.sizes[3], conv.sizes[1]};
  if (b.sizesOf(result) != sizes)
    result = b.create<tensor::ExtractSliceOp>(result, numbers({0, 0, 0, 0}),
                                              sizes, numbers({1, 1, 1, 1}));
  return moveChannels(b, result, ir::Channels::Second);
}

} // namespace

bool prefersWinograd(const Convolution &conv) {
  // The multiply-adds that take as long as one element of the transformations.
  constexpr int64_t productsOfElement = 12;
  // With fewer tiles reading the larger weight takes longer.
  constexpr int64_t fewestTiles = 4;
  // A limit for memory that PyTorch does not need.
  constexpr int64_t mostBytes = int64_t(64) << 20;
  if (setOf(conv.input.dtype) != F32 || conv.spatial != 2 ||
      conv.input.type().isDynamicDim(0))
    return false;
  for (int64_t dim = 0; dim < conv.spatial; ++dim)
    if (conv.window(dim) != window || conv.stride[dim] != 1 ||
        conv.dilation[dim] != 1)
      return false;
  int64_t channels = conv.channels(), filters = conv.filters();
  int64_t tiles = allTilesOf(conv), products = tiles * span * span;
  int64_t direct =
      conv.input.size(0) * pointsOf(conv, 0) * pointsOf(conv, 1) * conv.taps();
  int64_t bytes = products * conv.groups * (channels + filters) *
                  static_cast<int64_t>(sizeof(float));
  return (direct - products) * channels * filters >=
             productsOfElement * products * (channels + filters) &&
         tiles >= fewestTiles && bytes <= mostBytes &&
         2 * direct >= 3 * products;
}

Value convolveWinograd(LoweringBuilder &b, const Convolution &conv) {
  return Winograd(b, conv).run();
}

} // namespace importer
} // namespace anabranch
