//===- TopK.cpp - the largest elements of short rows ----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// An element's place is the number of elements of its row that come before it:
// larger ones, and equal ones that stand earlier. The result at a place is the
// element that has it. Both are reductions over the row, quadratic in its
// length: for rows such as those of a router.
//
//===----------------------------------------------------------------------===//

#include "import/Lowering.h"
#include "import/OpTable.h"

using namespace mlir;

namespace anabranch {
namespace importer {

/// Longer rows are sorted faster.
static constexpr int64_t kLongestRow = 128;

/// PyTorch takes NaN for the largest.
static Num comesBefore(Num a, Num b, bool largest) {
  Num aNan = s::isNan(a), bNan = s::isNan(b);
  return largest ? (a > b) | (aNan & !bNan) : (b > a) | (bNan & !aNan);
}

static Lowered lowerTopK(ir::AtenOp op, LoweringBuilder &b) {
  Operand self = b.operand("self");
  int64_t rank = self.rank();
  auto k = op.getIntArg("k");
  if (rank == 0 || !k)
    return b.refuse("a number, or a symbolic number of elements");
  // Of equal elements PyTorch takes any: where there are many, as in integers,
  // results would differ.
  if (!self.dtype.isFloat())
    return b.refuse("integers");
  int64_t dim = b.wrapDim(op.getIntArg("dim").value_or(-1), rank);
  bool largest = op.getBoolArg("largest").value_or(true);
  int64_t size = self.size(dim);
  if (ShapedType::isDynamic(size) || size > kLongestRow || size < 1)
    return b.refuse("rows that are long, empty or of symbolic length");
  DType math = self.dtype.math();
  DType wide = DType::integer(b.context(), 64);

  // One more dimension, the last, runs over the row that `dim` stands in.
  SmallVector<int64_t> own = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<int64_t> other = own;
  other[dim] = rank;
  Sizes pairs = b.sizesOf(self.value);
  pairs.push_back(b.indexAttr(size));
  Value places = b.reduce(
      {b.tensor(self.value, self.dtype, own),
       b.tensor(self.value, self.dtype, other)},
      pairs, {rank}, Combine::Add, wide, [&](Body &body, ArrayRef<Num> x) {
        Num equal = !comesBefore(x[0], x[1], largest) &
                    !comesBefore(x[1], x[0], largest);
        Num earlier = s::index(body, rank) < s::index(body, dim);
        return s::cast(comesBefore(x[1], x[0], largest) | (equal & earlier),
                       wide);
      });

  Sizes chosen = pairs;
  chosen[dim] = b.indexAttr(*k);
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
  return SmallVector<Value>{b.convert(b.tensor(values, math), self.dtype),
                            positions};
}

void registerTopK(OpTable &table) {
  table.family("topk");
  table.add("topk", lowerTopK, "T(3, 5), 2; T(4, 3, 5), 2, 1, False",
            kF32 | kF64 | kI64);
}

} // namespace importer
} // namespace anabranch
