//===- GroupedMatmul.cpp - rows that multiply the matrix of their group ---===//
// SPDX-License-Identifier: Apache-2.0
//
//   rows of group 0  x  matrix 0      A row's group is the number of groups
//   rows of group 1  x  matrix 1  ->  that end before it. The matrix at this
//   ...                               place is the operand of a product, which
//                                     the kernel reads in place.

#include "import/lowering/Contract.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace importer {

static AffineMap pick(LoweringBuilder &b, ArrayRef<unsigned> dims) {
  return AffineMap::getMultiDimMapWithTargets(4, dims, b.context());
}

/// [B, M, K] x [B, K, N], in the dtype of the sums.
static Value multiplyAll(LoweringBuilder &b, Operand left, Operand right) {
  Sizes sizes = b.sizesOf(left.value);
  sizes.back() = b.sizeOf(right.value, 2);
  return contract(b.builder, b.loc, {left.value, pick(b, {0, 1, 3})},
                  {right.value, pick(b, {0, 3, 2})}, pick(b, {0, 1, 2}), sizes,
                  left.dtype);
}

/// For each row, the number of groups that end at it or before it.
static Operand groupsOfRows(LoweringBuilder &b, Operand ends,
                            OpFoldResult rows) {
  DType wide = DType::integer(b.context(), 64);
  Sizes sizes{rows, b.sizeOf(ends.value, 0)};
  ends.positions = {1};
  Value groups = b.reduce(
      {ends}, sizes, {1}, Combine::Add, wide, [&](Body &body, ArrayRef<Num> x) {
        return s::cast(s::cast(x[0], wide) <= s::index(body, 0), wide);
      });
  return b.tensor(groups, wide);
}

/// The matrix of each row: [rows, K, N]. Rows after the last group take the
/// last matrix.
static Operand matricesOf(LoweringBuilder &b, Operand groups, Operand right) {
  Sizes sizes = b.sizesOf(right.value);
  Value count = asIndex(b.builder, b.loc, sizes[0]);
  sizes[0] = b.sizeOf(groups.value, 0);
  AffineMap row = AffineMap::getMultiDimMapWithTargets(3, {0}, b.context());
  Value matrices = gatherElements(
      b, right.value, sizes, {{groups.value, row}},
      [&](Body &body, ArrayRef<Value> position, ArrayRef<Value> elements) {
        Num group{&body, elements[0], groups.dtype};
        Num last = s::fromIndex(body, count, groups.dtype) - group.constant(1);
        return Indices{s::toIndex(s::minimum(group, last)), position[1],
                       position[2]};
      });
  return b.tensor(matrices, right.dtype);
}

/// [S, K] x [G, K, N], where group g ends before row offs[g]. Rows after the
/// last group are zero.
static Value multiplyGroups(LoweringBuilder &b, Operand left, Operand right,
                            Operand ends) {
  Sizes sizes = b.sizesOf(left.value);
  Operand groups = groupsOfRows(b, ends, sizes[0]);
  Operand matrices = matricesOf(b, groups, right);
  left.value = reshape(b.builder, b.loc, left.value,
                       {sizes[0], b.indexAttr(1), sizes[1]});
  Operand sum =
      b.tensor(multiplyAll(b, left, matrices), accumulatorOf(left.dtype));
  Value count = asIndex(b.builder, b.loc, b.sizeOf(right.value, 0));
  groups.positions = {0};
  Value product =
      b.elementwiseMixed({sum, groups}, left.dtype, b.sizesOf(sum.value),
                         [&](Body &body, ArrayRef<Num> x) {
                           Num isInside =
                               x[1] < s::fromIndex(body, count, x[1].dtype);
                           return s::select(isInside, x[0], x[0].constant(0));
                         });
  return reshape(b.builder, b.loc, product,
                 {sizes[0], b.sizeOf(right.value, 2)});
}

static Lowered grouped(LoweringBuilder &b, Operand left, Operand right,
                       Operand ends) {
  if (left.dtype != right.dtype || left.dtype != b.resultDType() ||
      !left.dtype.isFloat())
    return b.refuse("operands of several dtypes, or no floats");
  if (right.rank() != 3)
    return b.refuse("groups that cut the depth or the columns");
  if (right.size(0) == 0)
    return b.refuse("no groups");
  if (left.rank() == 3 && !ends)
    return lowered(b.convert(
        b.tensor(multiplyAll(b, left, right), accumulatorOf(left.dtype)),
        left.dtype));
  if (left.rank() != 2 || !ends || !ends.dtype.isInt() || ends.rank() != 1)
    return b.refuse("groups that cut the columns");
  return lowered(multiplyGroups(b, left, right, ends));
}

static Lowered lowerGroupedMm(ir::AtenOp op, LoweringBuilder &b) {
  if (b.operand("bias"))
    return b.refuse("a bias");
  return grouped(b, b.operand("self"), b.operand("mat2"), b.operand("offs"));
}

/// transformers calls this operator for dtypes that torch._grouped_mm does not
/// take.
static Lowered lowerFallback(ir::AtenOp op, LoweringBuilder &b) {
  return grouped(b, b.operand("input"), b.operand("weight"), b.operand("offs"));
}

void registerGroupedMatmul(OpTable &table) {
  table.family("matmul");
  table.add("_grouped_mm", lowerGroupedMm, "", Floats | I32);
  table.add("transformers::grouped_mm_fallback", lowerFallback, "",
            Floats | I32 | I64);
}

} // namespace importer
} // namespace anabranch
