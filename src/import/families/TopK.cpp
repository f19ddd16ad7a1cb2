//===- TopK.cpp - the largest elements of rows ----------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Few elements are chosen one after the other: each is the largest of those
// that come after the one before. An element and its position form one integer,
// so that a choice is one reduction over the row.
//
// Many elements of a short row are placed instead. An element's place is the
// number of elements of its row that come before it: larger ones, and equal
// ones that come earlier. The result at a place is the element that has it.
// These reductions are quadratic in the row's length.

#include "import/lowering/Lowering.h"
#include "import/lowering/OpTable.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

/// Rows longer than this are not placed: other methods are faster.
static constexpr int64_t longestRow = 128;
/// Whether one pass over the row for each choice is faster than PyTorch, which
/// keeps a heap.
static bool choosesFew(int64_t count, int64_t size) {
  return count > 0 && (size <= 512 ? count <= 16 : count <= 8 && size <= 8192);
}

namespace {

/// The rows along a dimension, and what a call wants of them.
struct Rows {
  Operand self;
  int64_t dim, size;
  int64_t count; ///< elements to choose
  bool largest;

  int64_t rank() const { return self.rank(); }
  SmallVector<int64_t> dims() const {
    return llvm::to_vector(llvm::seq<int64_t>(0, rank()));
  }
  Sizes chosen(LoweringBuilder &b) const {
    Sizes sizes = b.sizesOf(self.value);
    sizes[dim] = b.indexAttr(count);
    return sizes;
  }
};

/// Elements of 32 bits with their positions, as integers of which larger ones
/// are chosen first. The upper half orders as the elements do; the lower half
/// counts positions from the end. NaN is the largest element, as in PyTorch.
struct Ranking {
  DType half, whole;
  bool largest;

  Ranking(LoweringBuilder &b, const Rows &rows)
      : half(DType::integer(b.context(), 32)),
        whole(DType::integer(b.context(), 64)), largest(rows.largest) {}

  Num rank(Body &body, Num x, int64_t dim) const;
  /// The two halves of a rank.
  Num element(Num rank, DType math) const;
  Num position(Num rank, DType wide) const;

private:
  static constexpr int64_t lower = 0xffffffff;

  /// The bits of a float as an integer of the same order; its own inverse.
  static Num reorder(Num bits) {
    Num sign = shift<arith::ShRSIOp>(bits, 31);
    return bits ^ (sign & bits.constant(std::numeric_limits<int32_t>::max()));
  }
  template <typename Op> static Num shift(Num x, int64_t by) {
    Value moved = x.body->create<Op>(x.value, x.constant(by).value);
    return {x.body, moved, x.dtype};
  }
};

Num Ranking::rank(Body &body, Num x, int64_t dim) const {
  Num bits{&body, body.create<arith::BitcastOp>(half.type, x.value), half};
  Num key =
      s::select(s::isNan(x), bits.constant(std::numeric_limits<int32_t>::max()),
                reorder(bits));
  if (!largest)
    key = key ^ key.constant(-1);
  Num position = s::cast(s::index(body, dim), whole);
  return shift<arith::ShLIOp>(s::cast(key, whole), 32) |
         (position.constant(lower) - position);
}

Num Ranking::element(Num rank, DType math) const {
  Num key = s::cast(shift<arith::ShRSIOp>(rank, 32), half);
  if (!largest)
    key = key ^ key.constant(-1);
  Body &body = *rank.body;
  Num bits = reorder(key);
  return {&body, body.create<arith::BitcastOp>(math.type, bits.value), math};
}

Num Ranking::position(Num rank, DType wide) const {
  Num mask = rank.constant(lower);
  return s::cast(mask - (rank & mask), wide);
}

} // namespace

/// Chooses one element after the other.
static SmallVector<Value> chooseFew(LoweringBuilder &b, const Rows &rows) {
  Ranking ranking(b, rows);
  Operand self = b.tensor(rows.self.value, rows.self.dtype, rows.dims());
  SmallVector<int64_t> outer = rows.dims();
  outer.erase(outer.begin() + rows.dim);
  SmallVector<Operand> choices;
  for (int64_t i = 0; i < rows.count; ++i) {
    SmallVector<Operand> read{self};
    if (i > 0)
      read.push_back(choices.back());
    Value best =
        b.reduce(read, b.sizesOf(rows.self.value), {rows.dim}, Combine::Max,
                 ranking.whole, [&](Body &body, ArrayRef<Num> x) {
                   Num rank = ranking.rank(body, x[0], rows.dim);
                   if (x.size() == 1)
                     return rank;
                   Num none =
                       rank.constant(std::numeric_limits<int64_t>::min());
                   return s::select(rank < x[1], rank, none);
                 });
    choices.push_back(b.tensor(best, ranking.whole, outer));
  }
  DType wide = DType::integer(b.context(), 64);
  auto choice = [&](Body &body, ArrayRef<Num> x) {
    Num chosen = x[0], place = s::index(body, rows.dim);
    for (size_t i = 1; i < x.size(); ++i)
      chosen = s::select(place == place.constant(int64_t(i)), x[i], chosen);
    return chosen;
  };
  DType math = rows.self.dtype.math();
  Value values =
      b.elementwiseMixed(choices, rows.self.dtype, rows.chosen(b),
                         [&](Body &body, ArrayRef<Num> x) {
                           return ranking.element(choice(body, x), math);
                         });
  Value positions = b.elementwiseMixed(
      choices, wide, rows.chosen(b), [&](Body &body, ArrayRef<Num> x) {
        return ranking.position(choice(body, x), wide);
      });
  return {values, positions};
}

static Num isChosenBefore(Num a, Num b, bool largest) {
  Num aNan = s::isNan(a), bNan = s::isNan(b);
  return largest ? (a > b) | (aNan & !bNan) : (b > a) | (bNan & !aNan);
}

/// Computes every element's place, and returns the elements of the first
/// places.
static SmallVector<Value> placeAll(LoweringBuilder &b, const Rows &rows) {
  const Operand &self = rows.self;
  int64_t rank = rows.rank(), dim = rows.dim;
  bool largest = rows.largest;
  DType math = self.dtype.math();
  DType wide = DType::integer(b.context(), 64);

  // The last of these dimensions is added: it runs over the row along `dim`.
  SmallVector<int64_t> own = rows.dims();
  SmallVector<int64_t> other = own;
  other[dim] = rank;
  Sizes pairs = b.sizesOf(self.value);
  pairs.push_back(b.indexAttr(rows.size));
  Value places = b.reduce(
      {b.tensor(self.value, self.dtype, own),
       b.tensor(self.value, self.dtype, other)},
      pairs, {rank}, Combine::Add, wide, [&](Body &body, ArrayRef<Num> x) {
        Num equal = !isChosenBefore(x[0], x[1], largest) &
                    !isChosenBefore(x[1], x[0], largest);
        Num earlier = s::index(body, rank) < s::index(body, dim);
        return s::cast(isChosenBefore(x[1], x[0], largest) | (equal & earlier),
                       wide);
      });

  Sizes chosen = pairs;
  chosen[dim] = b.indexAttr(rows.count);
  Operand place = b.tensor(places, wide, other);
  Value values =
      b.reduce({b.tensor(self.value, self.dtype, other), place}, chosen, {rank},
               Combine::Max, math, [&](Body &body, ArrayRef<Num> x) {
                 return s::select(x[1] == s::index(body, dim), x[0],
                                  x[0].constant(-INFINITY));
               });
  Value positions = b.reduce({place}, chosen, {rank}, Combine::Add, wide,
                             [&](Body &body, ArrayRef<Num> x) {
                               Num position = s::index(body, rank);
                               return s::select(x[0] == s::index(body, dim),
                                                position, position.constant(0));
                             });
  return {b.convert(b.tensor(values, math), self.dtype), positions};
}

static Lowered lowerTopK(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self");
  auto k = op.getIntArg("k");
  if (self.rank() == 0 || !k)
    return b.refuse("a number, or a symbolic number of elements");
  // PyTorch returns any of equal elements. Numbers of few bits have many equal
  // ones, so results would differ from PyTorch's.
  if (!self.dtype.isFloat() || self.dtype.width() < 32)
    return b.refuse("integers and floats of two bytes");
  int64_t dim = b.wrapDim(op.getIntArg("dim").value_or(-1), self.rank());
  Rows rows{self, dim, self.size(dim), *k,
            op.getBoolArg("largest").value_or(true)};
  if (ShapedType::isDynamic(rows.size) || rows.size < 1)
    return b.refuse("rows that are empty or of symbolic length");
  bool isShort = rows.size <= longestRow;
  if (self.dtype.math().width() == 32 && choosesFew(*k, rows.size) &&
      (!isShort || 4 * *k <= rows.size))
    return chooseFew(b, rows);
  if (!isShort)
    return b.refuse("many elements of long rows");
  return placeAll(b, rows);
}

void registerTopK(OpTable &table) {
  table.family("topk");
  table.add("topk", lowerTopK,
            "T(3, 5), 2; T(4, 3, 5), 2, 1, False; T(2, 40), 3",
            F32 | F64 | I64);
}

} // namespace importer
} // namespace anabranch
