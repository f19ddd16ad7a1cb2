//===- Sort.cpp - short rows in order -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// An element's place is the number of elements of its row that come before it:
// smaller ones, and equal ones that come earlier. Each element is then written
// to its place. The number of comparisons is quadratic in the row's length.

#include "import/lowering/OpTable.h"
#include "import/lowering/Scattering.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

/// With more comparisons than this, PyTorch's sort is faster.
static constexpr int64_t mostComparisons = 512 * 512;

namespace {

struct Sorted {
  Operand self;
  int64_t dim;
  bool descending;

  Value places(LoweringBuilder &b) const;
  /// `values`, of self's shape, each moved to the place of its element.
  Value moved(LoweringBuilder &b, Operand values, Value places) const;
};

} // namespace

/// NaN is the largest element.
static Num comesBefore(Num a, Num b, bool descending) {
  if (descending)
    std::swap(a, b);
  Num less = a < b;
  return a.dtype.isFloat() ? less | (s::isNan(b) & !s::isNan(a)) : less;
}

Value Sorted::places(LoweringBuilder &b) const {
  int64_t rank = self.rank();
  DType wide = DType::integer(b.context(), 64);
  // The last of these dimensions is added: it runs over the row along `dim`.
  SmallVector<int64_t> own = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> other = own;
  other[dim] = rank;
  Sizes pairs = b.sizesOf(self.value);
  pairs.push_back(pairs[dim]);
  return b.reduce({b.tensor(self.value, self.dtype, own),
                   b.tensor(self.value, self.dtype, other)},
                  pairs, {rank}, Combine::Add, wide,
                  [&](Body &body, ArrayRef<Num> x) {
                    Num after = comesBefore(x[0], x[1], descending);
                    Num before = comesBefore(x[1], x[0], descending);
                    Num isEarlier = s::index(body, rank) < s::index(body, dim);
                    return s::cast(before | (!after & isEarlier), wide);
                  });
}

Value Sorted::moved(LoweringBuilder &b, Operand values, Value places) const {
  Sizes sizes = b.sizesOf(self.value);
  Operand empty = b.tensor(b.fill(sizes, values.dtype, 0), values.dtype);
  return scatter(b, empty, values,
                 [&](Body &body, ArrayRef<Value> point, Num, Num update) {
                   Value place = body.builder.create<tensor::ExtractOp>(
                       body.loc, places, point);
                   Indices position(point);
                   position[dim] = body.builder.create<arith::IndexCastOp>(
                       body.loc, body.builder.getIndexType(), place);
                   return Placed{position, update};
                 });
}

static Lowered lowerSort(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self");
  if (self.rank() == 0 || !self.type().hasStaticShape() ||
      self.type().getNumElements() == 0)
    return b.refuse("a number, or rows that are empty or of symbolic length");
  Sorted sorted{self, dimArg(op, "dim", self.rank(), -1),
                op.getBoolArg("descending").value_or(false)};
  int64_t size = self.size(sorted.dim);
  // PyTorch's sort, which is std::sort, keeps the order of so few.
  constexpr int64_t longestStable = 16;
  if (size > longestStable && !op.getBoolArg("stable").value_or(false))
    return b.refuse("long rows in which equal elements may come in any order");
  if (self.type().getNumElements() > mostComparisons / size)
    return b.refuse("rows that are too long or too many");
  Value places = sorted.places(b);
  DType wide = DType::integer(b.context(), 64);
  Value numbers = b.elementwiseMixed(
      {}, wide, b.sizesOf(self.value),
      [&](Body &body, ArrayRef<Num>) { return s::index(body, sorted.dim); });
  return SmallVector<Value>{sorted.moved(b, self, places),
                            sorted.moved(b, b.tensor(numbers, wide), places)};
}

/// histc between given bounds: the number of elements in each bin.
static Lowered lowerHistc(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self");
  auto bins = op.getIntArg("bins");
  auto number = [&](StringRef name) -> std::optional<double> {
    if (auto integer = op.getIntArg(name))
      return double(*integer);
    return op.getFloatArg(name);
  };
  auto low = number("min"), high = number("max");
  if (!bins || *bins < 1 || !low || !high || !(*low < *high))
    return b.refuse("bounds that are found in the data");
  DType wide = DType::integer(b.context(), 64);
  OpFoldResult count = b.product(b.sizesOf(self.value));
  self.value = reshape(b.builder, b.loc, self.value, {count});
  self.positions = {1};
  Value counts = b.reduce(
      {self}, {b.indexAttr(*bins), count}, {1}, Combine::Add, wide,
      [&](Body &body, ArrayRef<Num> x) {
        // The operations have PyTorch's order, and so its roundings.
        Num scaled = (x[0] - x[0].constant(*low)) *
                     x[0].constant(double(*bins)) /
                     (x[0].constant(*high) - x[0].constant(*low));
        Num isInside = (x[0] >= *low) & (x[0] <= *high);
        Num bin = s::cast(s::select(isInside, scaled, x[0].constant(0)), wide);
        bin = s::minimum(bin, bin.constant(*bins - 1));
        return s::cast(isInside & (bin == s::index(body, 0)), wide);
      });
  return lowered(b.convert(b.tensor(counts, wide), b.resultDType()));
}

void registerSort(OpTable &table) {
  table.family("sort");
  StringRef samples = "T(7); T(3, 5), 0; T(2, 3, 4), 1, True";
  table.add("sort", lowerSort, samples);
  table.add("sort.stable", lowerSort, "T(3, 5), stable=True, dim=1");
  table.add("histc", lowerHistc, "T(40), 8, -1, 1; T(5, 6), 4, 0, 2",
            F32 | F64);
}

} // namespace importer
} // namespace anabranch
