//===- Normalization.cpp - layer, RMS, group and batch norm ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// Statistics are reductions of rows, the result is elementwise on the same
// rows: one kernel each. The variance is taken around the mean, in a second
// reduction, which loses no digits to cancellation.
//
//===----------------------------------------------------------------------===//

#include "import/OpTable.h"
#include "import/Shapes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

namespace {
/// A tensor, the dimensions that are normalised together, and what is computed
/// in.
struct Norm {
  Operand input;
  Sizes sizes;
  SmallVector<int64_t> dims;
  DType math;
};

/// With the normalised dimensions kept as ones.
struct Statistics {
  Operand mean, rstd;
};
} // namespace

/// The number of elements that are normalised together, as a scalar operand.
static Operand countOf(LoweringBuilder &b, const Norm &norm) {
  Sizes members;
  for (int64_t dim : norm.dims)
    members.push_back(norm.sizes[dim]);
  OpFoldResult count = b.product(members);
  if (auto constant = getConstantIntValue(count))
    return b.number(double(*constant));
  return b.tensor(cast<Value>(count));
}

static Operand sumRows(LoweringBuilder &b, const Norm &norm,
                       ArrayRef<Operand> operands,
                       LoweringBuilder::BodyFn map) {
  Value sum =
      b.reduce(operands, norm.sizes, norm.dims, Combine::Add, norm.math, map);
  return b.tensor(b.unsqueeze(sum, norm.dims), norm.math);
}

/// A generic on one number per row.
static Operand perRow(LoweringBuilder &b, const Norm &norm,
                      ArrayRef<Operand> operands,
                      LoweringBuilder::BodyFn body) {
  Sizes sizes = b.sizesOf(operands[0].value);
  return b.tensor(b.elementwise(operands, norm.math, norm.math, sizes, body),
                  norm.math);
}

/// 1 / sqrt(sum / count + eps).
static Operand inverseRoot(LoweringBuilder &b, const Norm &norm, Operand sum,
                           Operand count, double eps) {
  return perRow(b, norm, {sum, count}, [&](Body &, ArrayRef<Num> x) {
    return s::rsqrt(x[0] / x[1] + eps);
  });
}

static Statistics statisticsOf(LoweringBuilder &b, const Norm &norm,
                               double eps) {
  Operand count = countOf(b, norm);
  Operand sum = sumRows(b, norm, {norm.input}, [&](Body &, ArrayRef<Num> x) {
    return s::cast(x[0], norm.math);
  });
  Operand mean = perRow(b, norm, {sum, count},
                        [](Body &, ArrayRef<Num> x) { return x[0] / x[1]; });
  Operand squares =
      sumRows(b, norm, {norm.input, mean}, [&](Body &, ArrayRef<Num> x) {
        Num distance = s::cast(x[0], norm.math) - x[1];
        return distance * distance;
      });
  return {mean, inverseRoot(b, norm, squares, count, eps)};
}

/// (x - mean) * rstd * weight + bias; what is absent is left out.
static Value normalize(LoweringBuilder &b, const Norm &norm, Operand mean,
                       Operand rstd, Operand weight, Operand bias,
                       DType result) {
  SmallVector<Operand> operands = {norm.input, rstd};
  for (Operand operand : {mean, weight, bias})
    if (operand)
      operands.push_back(operand);
  return b.elementwise(operands, norm.math, result, norm.sizes,
                       [&](Body &, ArrayRef<Num> x) {
                         const Num *next = x.begin() + 2;
                         Num value = x[0];
                         if (mean)
                           value = value - *next++;
                         value = value * x[1];
                         if (weight)
                           value = value * *next++;
                         return bias ? value + *next : value;
                       });
}

/// A statistic as result `i` of the operator, if somebody reads it.
static Value statisticResult(ir::AtenOp op, LoweringBuilder &b, unsigned i,
                             Operand statistic) {
  if (op.getResult(i).use_empty())
    return Value();
  Value value = b.convert(statistic, b.resultDType(i));
  return reshape(b.builder, b.loc, value, op.getResultSizes(i));
}

/// The last dimensions, as many as `normalized_shape` has.
static Norm lastDims(ir::AtenOp op, LoweringBuilder &b) {
  Norm norm;
  norm.input = b.operand("input");
  norm.sizes = b.sizesOf(norm.input.value);
  norm.math = norm.input.dtype.math();
  int64_t rank = norm.sizes.size();
  int64_t count = op.getSizeListArg("normalized_shape").size();
  for (int64_t dim = rank - count; dim < rank; ++dim)
    norm.dims.push_back(dim);
  return norm;
}

static Lowered lowerLayerNorm(ir::AtenOp op, LoweringBuilder &b) {
  auto eps = op.getFloatArg("eps");
  if (!eps)
    return b.refuse("eps is no literal");
  Norm norm = lastDims(op, b);
  Statistics statistics = statisticsOf(b, norm, *eps);
  Value out =
      normalize(b, norm, statistics.mean, statistics.rstd, b.operand("weight"),
                b.operand("bias"), b.resultDType());
  if (op.getNumResults() == 1)
    return lowered(out);
  return SmallVector<Value>{out, statisticResult(op, b, 1, statistics.mean),
                            statisticResult(op, b, 2, statistics.rstd)};
}

/// rms_norm, and _fused_rms_norm with the statistic as a second result.
static Lowered lowerRmsNorm(ir::AtenOp op, LoweringBuilder &b) {
  Norm norm = lastDims(op, b);
  // PyTorch's default: the smallest step of what is computed in.
  double eps = norm.math.width() == 64 ? 0x1p-52 : 0x1p-23;
  if (auto given = op.getFloatArg("eps"))
    eps = *given;
  Operand squares =
      sumRows(b, norm, {norm.input}, [&](Body &, ArrayRef<Num> x) {
        Num value = s::cast(x[0], norm.math);
        return value * value;
      });
  Operand rstd = inverseRoot(b, norm, squares, countOf(b, norm), eps);
  Value out =
      normalize(b, norm, {}, rstd, b.operand("weight"), {}, b.resultDType());
  if (op.getNumResults() == 1)
    return lowered(out);
  return SmallVector<Value>{out, statisticResult(op, b, 1, rstd)};
}

/// A per-channel tensor [C] as [split..., 1, 1] beside the normalised shape.
static Operand perChannel(LoweringBuilder &b, Operand channels,
                          ArrayRef<OpFoldResult> split, int64_t inner) {
  if (!channels)
    return {};
  Sizes sizes(split);
  sizes.append(inner, b.indexAttr(1));
  return b.tensor(reshape(b.builder, b.loc, channels.value, sizes),
                  channels.dtype);
}

/// native_group_norm: channels split into groups, each normalised with all that
/// is behind it.
static Lowered lowerGroupNorm(ir::AtenOp op, LoweringBuilder &b) {
  Operand input = b.operand("input");
  auto groups = op.getIntArg("group");
  auto eps = op.getFloatArg("eps");
  if (!groups || !eps || input.size(1) < 0)
    return b.refuse("groups, channels or eps are no literals");
  Sizes sizes = b.sizesOf(input.value);
  OpFoldResult members = b.indexAttr(input.size(1) / *groups);
  int64_t inner = sizes.size() - 2;
  Norm norm;
  norm.sizes = {sizes[0], b.indexAttr(*groups), members};
  norm.sizes.append(sizes.begin() + 2, sizes.end());
  norm.input =
      b.tensor(reshape(b.builder, b.loc, input.value, norm.sizes), input.dtype);
  norm.math = input.dtype.math();
  for (int64_t dim = 2; dim < inner + 3; ++dim)
    norm.dims.push_back(dim);
  Statistics statistics = statisticsOf(b, norm, *eps);
  Sizes split = {norm.sizes[1], members};
  Value out = normalize(b, norm, statistics.mean, statistics.rstd,
                        perChannel(b, b.operand("weight"), split, inner),
                        perChannel(b, b.operand("bias"), split, inner),
                        b.resultDType());
  return SmallVector<Value>{reshape(b.builder, b.loc, out, sizes),
                            statisticResult(op, b, 1, statistics.mean),
                            statisticResult(op, b, 2, statistics.rstd)};
}

/// Batch norm in inference: elementwise, by the running statistics. The saved
/// statistics are empty then.
static Lowered lowerBatchNorm(ir::AtenOp op, LoweringBuilder &b) {
  auto eps = op.getFloatArg("eps");
  if (!eps)
    return b.refuse("eps is no literal");
  Norm norm;
  norm.input = b.operand("input");
  norm.sizes = b.sizesOf(norm.input.value);
  norm.math = norm.input.dtype.math();
  int64_t inner = static_cast<int64_t>(norm.sizes.size()) - 2;
  auto channels = [&](Operand tensor) {
    return perChannel(b, tensor, norm.sizes[1], inner);
  };
  Operand variance = b.operand("running_var");
  Operand rstd = b.tensor(b.elementwise({variance}, norm.math, norm.math,
                                        b.sizesOf(variance.value),
                                        [&](Body &, ArrayRef<Num> x) {
                                          return s::rsqrt(x[0] + *eps);
                                        }),
                          norm.math);
  Value out = normalize(b, norm, channels(b.operand("running_mean")),
                        channels(rstd), channels(b.operand("weight")),
                        channels(b.operand("bias")), b.resultDType());
  SmallVector<Value> results = {out};
  for (unsigned i = 1; i < op.getNumResults(); ++i)
    results.push_back(b.empty(op.getResultSizes(i), b.resultDType(i)));
  return results;
}

void anabranch::importer::registerNormalization(OpTable &table) {
  table.family("norm");
  table.add("native_layer_norm", lowerLayerNorm,
            "T(3, 8), [8], T(8), T(8), 1e-5; T(3, 4, 5), [4, 5], None, None, "
            "1e-5",
            kFloats);
  table.add("layer_norm", lowerLayerNorm, "", kFloats);
  table.add("rms_norm", lowerRmsNorm, "T(3, 8), [8], T(8)", kFloats);
  table.add("_fused_rms_norm", lowerRmsNorm, "T(3, 8), [8], T(8), 1e-5",
            kFloats);
  table.add("native_group_norm", lowerGroupNorm,
            "T(2, 6, 5), T(6), T(6), 2, 6, 5, 3, 1e-5", kFloats);
  table.add("_native_batch_norm_legit_no_training", lowerBatchNorm,
            "T(2, 3, 4), T(3), T(3), T(3), P(3), 0.1, 1e-5", kFloats);
}
