//===- Matmul.cpp - products of matrices and vectors ----------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Each operator is one contraction, then at most one elementwise generic that
// scales, adds and rounds once.

#include "import/lowering/Contract.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

/// A map from `loops` dimensions to those in `dims`.
static AffineMap pick(LoweringBuilder &b, unsigned loops,
                      ArrayRef<unsigned> dims) {
  return AffineMap::getMultiDimMapWithTargets(loops, dims, b.context());
}

/// [M, K] x [K, N]. If the rank is 3, both have a batch dimension before.
static Value multiply(LoweringBuilder &b, Operand left, Operand right) {
  bool batched = left.rank() == 3;
  unsigned loops = batched ? 4 : 3, m = loops - 3, n = m + 1, k = m + 2;
  auto dims = [&](unsigned row, unsigned column) {
    SmallVector<unsigned> picked = {row, column};
    if (batched)
      picked.insert(picked.begin(), 0);
    return pick(b, loops, picked);
  };
  Sizes sizes = b.sizesOf(left.value);
  sizes.back() = b.sizeOf(right.value, right.rank() - 1);
  return contract(b.builder, b.loc, {left.value, dims(m, k)},
                  {right.value, dims(k, n)}, dims(m, n), sizes, left.dtype,
                  right.dtype);
}

/// The sum in the dtype of the result.
static Value rounded(LoweringBuilder &b, Value sum, DType dtype) {
  return b.convert(b.tensor(sum, accumulatorOf(dtype)), dtype);
}

/// alpha * sum + beta * self. If beta is zero, NaN in `self` is ignored.
static Value scaledSum(ir::AtenOp op, LoweringBuilder &b, Operand self,
                       Value sum) {
  DType dtype = b.resultDType();
  Operand alpha = b.operand("alpha"), beta = b.operand("beta");
  auto isNumber = [](Operand scalar, double number) {
    auto real = dyn_cast_or_null<FloatAttr>(scalar.literal);
    auto integer = dyn_cast_or_null<IntegerAttr>(scalar.literal);
    return (real && real.getValueAsDouble() == number) ||
           (integer && integer.getInt() == number);
  };
  if (!alpha)
    alpha = b.number(int64_t(1));
  if (!beta)
    beta = b.number(int64_t(1));
  bool scales = !isNumber(alpha, 1), scalesSelf = !isNumber(beta, 1);
  Operand product = b.tensor(sum, accumulatorOf(dtype));
  if (isNumber(beta, 0)) {
    if (!scales)
      return rounded(b, sum, dtype);
    return b.elementwise({product, alpha}, dtype, dtype, op.getResultSizes(),
                         [](Body &, ArrayRef<Num> x) { return x[0] * x[1]; });
  }
  return b.elementwise({product, self, alpha, beta}, dtype, dtype,
                       op.getResultSizes(), [&](Body &, ArrayRef<Num> x) {
                         Num scaled = scales ? x[0] * x[2] : x[0];
                         return scaled + (scalesSelf ? x[1] * x[3] : x[1]);
                       });
}

static Lowered lowerMm(ir::AtenOp op, LoweringBuilder &b) {
  Operand left = b.operand("self"), right = b.operand("mat2");
  if (left.dtype != right.dtype || left.dtype != b.resultDType())
    return b.refuse("operands of several dtypes");
  return lowered(rounded(b, multiply(b, left, right), b.resultDType()));
}

/// Products of bytes in int32. The right operand is signed.
static Lowered lowerIntMm(ir::AtenOp op, LoweringBuilder &b) {
  Operand left = b.operand("self"), right = b.operand("mat2");
  if (left.dtype.width() != 8 || right.dtype.width() != 8 ||
      right.dtype.isUnsigned)
    return b.refuse("operands that are not int8");
  return lowered(rounded(b, multiply(b, left, right), b.resultDType()));
}

static Lowered addProduct(ir::AtenOp op, LoweringBuilder &b, StringRef first,
                          StringRef second) {
  Operand left = b.operand(first), right = b.operand(second);
  if (left.dtype != right.dtype || left.dtype != b.resultDType())
    return b.refuse("operands of several dtypes");
  return lowered(scaledSum(op, b, b.operand("self"), multiply(b, left, right)));
}

static Lowered lowerAddmm(ir::AtenOp op, LoweringBuilder &b) {
  return addProduct(op, b, "mat1", "mat2");
}

static Lowered lowerBaddbmm(ir::AtenOp op, LoweringBuilder &b) {
  return addProduct(op, b, "batch1", "batch2");
}

/// [M, K] x [K].
static Value multiplyVector(LoweringBuilder &b, Operand matrix,
                            Operand vector) {
  return contract(b.builder, b.loc, {matrix.value, pick(b, 2, {0, 1})},
                  {vector.value, pick(b, 2, {1})}, pick(b, 2, {0}),
                  {b.sizeOf(matrix.value, 0)}, matrix.dtype);
}

static Lowered lowerMv(ir::AtenOp op, LoweringBuilder &b) {
  Operand matrix = b.operand("self"), vector = b.operand("vec");
  if (matrix.dtype != vector.dtype || matrix.dtype != b.resultDType())
    return b.refuse("operands of several dtypes");
  return lowered(
      rounded(b, multiplyVector(b, matrix, vector), b.resultDType()));
}

static Lowered lowerAddmv(ir::AtenOp op, LoweringBuilder &b) {
  Operand matrix = b.operand("mat"), vector = b.operand("vec");
  if (matrix.dtype != vector.dtype || matrix.dtype != b.resultDType())
    return b.refuse("operands of several dtypes");
  return lowered(
      scaledSum(op, b, b.operand("self"), multiplyVector(b, matrix, vector)));
}

static Lowered lowerDot(ir::AtenOp op, LoweringBuilder &b) {
  Operand left = b.operand("self");
  Operand right = b.operand(op.getCallee() == "dot" ? "tensor" : "other");
  if (left.dtype != right.dtype || left.dtype != b.resultDType())
    return b.refuse("operands of several dtypes");
  Value sum =
      contract(b.builder, b.loc, {left.value, pick(b, 1, {0})},
               {right.value, pick(b, 1, {0})}, pick(b, 1, {}), {}, left.dtype);
  return lowered(rounded(b, sum, b.resultDType()));
}

/// linear: multiplies rows of the input by rows of the weight, without a
/// transposed copy of the weight.
static Lowered lowerLinear(ir::AtenOp op, LoweringBuilder &b) {
  Operand input = b.operand("input"), weight = b.operand("weight");
  Operand bias = b.operand("bias");
  DType dtype = b.resultDType();
  if (input.dtype != weight.dtype || input.dtype != dtype ||
      (bias && bias.dtype != dtype))
    return b.refuse("operands of several dtypes");
  if (weight.rank() != 2)
    return b.refuse("the weight is no matrix");
  Sizes result = op.getResultSizes();
  Sizes inputSizes = b.sizesOf(input.value);
  Sizes rows = {b.product(ArrayRef(inputSizes).drop_back()), inputSizes.back()};
  Sizes flat = {rows[0], b.sizeOf(weight.value, 0)};
  Value matrix = reshape(b.builder, b.loc, input.value, rows);
  Value sum = contract(b.builder, b.loc, {matrix, pick(b, 3, {0, 2})},
                       {weight.value, pick(b, 3, {1, 2})}, pick(b, 3, {0, 1}),
                       flat, dtype);
  Value value =
      bias ? b.elementwise({b.tensor(sum, accumulatorOf(dtype)), bias}, dtype,
                           dtype, flat,
                           [](Body &, ArrayRef<Num> x) { return x[0] + x[1]; })
           : rounded(b, sum, dtype);
  return lowered(reshape(b.builder, b.loc, value, result));
}

void anabranch::importer::registerMatmul(OpTable &table) {
  table.family("matmul");
  table.add("mm", lowerMm, "T(5, 7), T(7, 3)", Numbers);
  table.add("bmm", lowerMm, "T(2, 5, 7), T(2, 7, 3)", Numbers);
  table.add("_int_mm", lowerIntMm, "", U8 | I8 | I32);
  table.add("addmm", lowerAddmm, "T(3), T(5, 7), T(7, 3)", Numbers);
  table.add("baddbmm", lowerBaddbmm, "T(2, 5, 3), T(2, 5, 7), T(2, 7, 3)",
            Numbers);
  table.add("mv", lowerMv, "T(5, 7), T(7)", Numbers);
  table.add("addmv", lowerAddmv, "T(5), T(5, 7), T(7)", Numbers);
  table.add("dot", lowerDot, "T(7), T(7)", Numbers);
  table.add("vdot", lowerDot, "T(7), T(7)", Numbers);
  table.addWhole("linear", lowerLinear,
                 "T(2, 5, 7), T(3, 7), T(3); T(5, 7), T(3, 7)", Floats);
}
