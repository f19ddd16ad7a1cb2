//===- Softmax.cpp - softmax, log_softmax and their gradients -------------===//
// SPDX-License-Identifier: Apache-2.0
//
// A softmax is four generics (maximum, exponential, sum, quotient) over the
// same rows, so dispatch formation makes one kernel of them.

#include "import/lowering/Moves.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

namespace {
/// The tensor of a softmax, with its rows along `dim`.
struct Rows {
  Operand tensor;
  Sizes sizes;
  int64_t dim;
  /// The dtype of the arithmetic.
  DType math;
};
} // namespace

static Rows rowsOf(ir::AtenOp op, LoweringBuilder &b, StringRef name) {
  Rows rows;
  rows.tensor = atLeast1d(b, b.operand(name));
  rows.sizes = b.sizesOf(rows.tensor.value);
  rows.dim = LoweringBuilder::wrapDim(op.getIntArg("dim").value_or(-1),
                                      rows.tensor.rank());
  DType math = rows.tensor.dtype.math();
  DType result = b.resultDType().math();
  // softmax.int may convert. PyTorch then converts the input first.
  rows.math = math.isFloat() && math.width() >= result.width() ? math : result;
  return rows;
}

/// Combines `map` of the operands along the rows, keeping the dimension.
static Operand reduceRows(LoweringBuilder &b, const Rows &rows,
                          ArrayRef<Operand> operands, Combine combine,
                          LoweringBuilder::BodyFn map) {
  Value reduced =
      b.reduce(operands, rows.sizes, {rows.dim}, combine, rows.math, map);
  return b.tensor(b.unsqueeze(reduced, {rows.dim}), rows.math);
}

static Operand rowMaximum(LoweringBuilder &b, const Rows &rows) {
  return reduceRows(
      b, rows, {rows.tensor}, Combine::Max,
      [&](Body &, ArrayRef<Num> x) { return s::cast(x[0], rows.math); });
}

static Lowered finish(ir::AtenOp op, LoweringBuilder &b, Value value) {
  return lowered(reshape(b.builder, b.loc, value, op.getResultSizes()));
}

static Lowered lowerSoftmax(ir::AtenOp op, LoweringBuilder &b) {
  Rows rows = rowsOf(op, b, "self");
  Operand maximum = rowMaximum(b, rows);
  Operand exponential =
      b.tensor(b.elementwise(
                   {rows.tensor, maximum}, rows.math, rows.math, rows.sizes,
                   [](Body &, ArrayRef<Num> x) { return s::exp(x[0] - x[1]); }),
               rows.math);
  Operand sum = reduceRows(b, rows, {exponential}, Combine::Add,
                           [](Body &, ArrayRef<Num> x) { return x[0]; });
  // A vector of quotients takes a processor ten times as long as a vector of
  // products.
  Sizes rowSizes = rows.sizes;
  rowSizes[rows.dim] = b.indexAttr(1);
  Operand inverse = b.tensor(
      b.elementwise({sum}, rows.math, rows.math, rowSizes,
                    [](Body &, ArrayRef<Num> x) { return 1.0 / x[0]; }),
      rows.math);
  return finish(
      op, b,
      b.elementwise({exponential, inverse}, rows.math, b.resultDType(),
                    rows.sizes,
                    [](Body &, ArrayRef<Num> x) { return x[0] * x[1]; }));
}

static Lowered lowerLogSoftmax(ir::AtenOp op, LoweringBuilder &b) {
  Rows rows = rowsOf(op, b, "self");
  Operand maximum = rowMaximum(b, rows);
  Operand sum = reduceRows(b, rows, {rows.tensor, maximum}, Combine::Add,
                           [&](Body &, ArrayRef<Num> x) {
                             return s::exp(s::cast(x[0], rows.math) - x[1]);
                           });
  return finish(op, b,
                b.elementwise({rows.tensor, maximum, sum}, rows.math,
                              b.resultDType(), rows.sizes,
                              [](Body &, ArrayRef<Num> x) {
                                return x[0] - x[1] - s::log(x[2]);
                              }));
}

/// The operands grad_output and output of the gradient, along the same rows.
static Lowered lowerBackward(ir::AtenOp op, LoweringBuilder &b,
                             bool isLogarithm) {
  Rows rows = rowsOf(op, b, "grad_output");
  Operand output = atLeast1d(b, b.operand("output"));
  SmallVector<Operand> summed{rows.tensor};
  if (!isLogarithm)
    summed.push_back(output);
  Operand sum =
      reduceRows(b, rows, summed, Combine::Add, [&](Body &, ArrayRef<Num> x) {
        Num grad = s::cast(x[0], rows.math);
        return isLogarithm ? grad : grad * s::cast(x[1], rows.math);
      });
  return finish(op, b,
                b.elementwise({rows.tensor, output, sum}, rows.math,
                              b.resultDType(), rows.sizes,
                              [&](Body &, ArrayRef<Num> x) {
                                return isLogarithm ? x[0] - s::exp(x[1]) * x[2]
                                                   : (x[0] - x[2]) * x[1];
                              }));
}

static Lowered lowerSoftmaxBackward(ir::AtenOp op, LoweringBuilder &b) {
  return lowerBackward(op, b, /*isLogarithm=*/false);
}

static Lowered lowerLogSoftmaxBackward(ir::AtenOp op, LoweringBuilder &b) {
  return lowerBackward(op, b, /*isLogarithm=*/true);
}

void anabranch::importer::registerSoftmax(OpTable &table) {
  table.family("softmax");
  table.add("_softmax", lowerSoftmax,
            "T(3, 5), -1, False; T(3, 5, 2), 1, False", Floats);
  table.add("softmax.int", lowerSoftmax, "T(3, 5), -1", Floats);
  table.add("_log_softmax", lowerLogSoftmax,
            "T(3, 5), -1, False; T(3, 5, 2), 1, False", Floats);
  table.add("log_softmax.int", lowerLogSoftmax, "T(3, 5), -1", Floats);
  table.add("_softmax_backward_data", lowerSoftmaxBackward,
            "T(3, 5), P(3, 5), -1, dtype", Floats);
  table.add("_log_softmax_backward_data", lowerLogSoftmaxBackward,
            "T(3, 5), T(3, 5), -1, dtype", Floats);
}
