//===- Normalization.cpp - layer, RMS, group and batch norm ---------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Statistics are reductions of rows, and the result is elementwise on the same
// rows: one kernel. The variance is taken around the mean, in a second
// reduction, so that no digits cancel.

#include "import/lowering/Moves.h"
#include "import/lowering/OpTable.h"
#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace anabranch;
using namespace anabranch::importer;

namespace {
/// A tensor, the dimensions that are normalised together, and the dtype of the
/// arithmetic.
struct Norm {
  Operand input;
  Sizes sizes;
  SmallVector<int64_t> dims;
  DType math;
};

/// Statistics whose normalised dimensions are kept, with size one.
struct Statistics {
  Operand mean, rstd;
  /// Squared distances from the mean, summed.
  Operand squares;
  /// The rounding error of the mean: the mean of the distances from it. Far
  /// from zero it is not small beside the deviation. Empty: rows are short.
  Operand rest;

  /// The subtrahends of a number, one after the other.
  SmallVector<Operand> centers() const {
    return rest ? SmallVector<Operand>{mean, rest} : SmallVector<Operand>{mean};
  }
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

/// A generic on one number for each row.
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

/// The sum of the numbers that are normalised together.
static Operand sumOf(LoweringBuilder &b, const Norm &norm) {
  return sumRows(b, norm, {norm.input}, [&](Body &, ArrayRef<Num> x) {
    return s::cast(x[0], norm.math);
  });
}

static Operand quotient(LoweringBuilder &b, const Norm &norm, Operand sum,
                        Operand count) {
  return perRow(b, norm, {sum, count},
                [](Body &, ArrayRef<Num> x) { return x[0] / x[1]; });
}

/// The sum of the squared distances from `center`.
static Operand squaresAround(LoweringBuilder &b, const Norm &norm,
                             Operand center) {
  return sumRows(b, norm, {norm.input, center}, [&](Body &, ArrayRef<Num> x) {
    Num distance = s::cast(x[0], norm.math) - x[1];
    return distance * distance;
  });
}

/// Whether the error of a mean grows past that of its rounding, so that the sum
/// of the distances is worth its time. Most layers are no wider than `longest`.
/// Rows of fewer digits have larger errors of their own.
static bool isLong(const Norm &norm) {
  constexpr int64_t longest = 2048;
  int64_t count = 1;
  for (int64_t dim : norm.dims) {
    int64_t size = norm.input.size(dim);
    if (size < 0)
      return true;
    count *= size;
  }
  return count > longest && norm.input.dtype == norm.math;
}

static Statistics statisticsOf(LoweringBuilder &b, const Norm &norm,
                               double eps) {
  Operand count = countOf(b, norm);
  Operand mean = quotient(b, norm, sumOf(b, norm), count);
  Operand squares = squaresAround(b, norm, mean);
  Operand rest;
  if (isLong(norm)) {
    Operand distances =
        sumRows(b, norm, {norm.input, mean}, [&](Body &, ArrayRef<Num> x) {
          return s::cast(x[0], norm.math) - x[1];
        });
    rest = quotient(b, norm, distances, count);
    squares =
        perRow(b, norm, {squares, rest, count}, [](Body &, ArrayRef<Num> x) {
          return s::maximum(x[0] - x[1] * x[1] * x[2], x[0].constant(0));
        });
  }
  return {mean, inverseRoot(b, norm, squares, count, eps), squares, rest};
}

/// (x - centers) * rstd * weight + bias. Absent parts are left out.
static Value normalize(LoweringBuilder &b, const Norm &norm,
                       ArrayRef<Operand> centers, Operand rstd, Operand weight,
                       Operand bias, DType result) {
  SmallVector<Operand> operands = {norm.input, rstd};
  operands.append(centers.begin(), centers.end());
  for (const Operand &operand : {weight, bias})
    if (operand)
      operands.push_back(operand);
  return b.elementwise(operands, norm.math, result, norm.sizes,
                       [&](Body &, ArrayRef<Num> x) {
                         const Num *next = x.begin() + 2;
                         Num value = x[0];
                         for (size_t i = 0; i < centers.size(); ++i)
                           value = value - *next++;
                         value = value * x[1];
                         if (weight)
                           value = value * *next++;
                         return bias ? value + *next : value;
                       });
}

/// A statistic as result `i` of the operator; null if it has no reader.
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
      normalize(b, norm, statistics.centers(), statistics.rstd,
                b.operand("weight"), b.operand("bias"), b.resultDType());
  if (op.getNumResults() == 1)
    return lowered(out);
  return SmallVector<Value>{out, statisticResult(op, b, 1, statistics.mean),
                            statisticResult(op, b, 2, statistics.rstd)};
}

/// rms_norm, and _fused_rms_norm with the statistic as a second result.
static Lowered lowerRmsNorm(ir::AtenOp op, LoweringBuilder &b) {
  Norm norm = lastDims(op, b);
  // PyTorch's default is the machine epsilon of the dtype of the arithmetic.
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

/// x * scale + shift, with numbers that depend on the channel only; `mean` and
/// `rstd` have the shape [C, 1...] or [N, C, 1...]. Eager PyTorch computes it
/// like this too (batch_norm_cpu, GroupNormKernelImplChannelsLast).
static Value scaleAndShift(LoweringBuilder &b, const Norm &norm, Operand mean,
                           Operand rstd) {
  int64_t inner = norm.input.rank() - 2;
  Operand weight = perChannel(b, b.operand("weight"), norm.sizes[1], inner);
  Operand bias = perChannel(b, b.operand("bias"), norm.sizes[1], inner);
  auto product = [](Body &, ArrayRef<Num> x) { return x[0] * x[1]; };
  Operand scale = weight ? perRow(b, norm, {rstd, weight}, product) : rstd;
  SmallVector<Operand> operands = {mean, scale};
  if (bias)
    operands.push_back(bias);
  Operand shift = perRow(b, norm, operands, [](Body &, ArrayRef<Num> x) {
    Num moved = x[0] * x[1];
    return x.size() > 2 ? x[2] - moved : 0.0 - moved;
  });
  return b.elementwise(
      {norm.input, scale, shift}, norm.math, b.resultDType(), norm.sizes,
      [](Body &, ArrayRef<Num> x) { return x[0] * x[1] + x[2]; });
}

/// Adds up the channels of each group: [N, C, 1...] becomes [N, groups].
static Operand sumGroups(LoweringBuilder &b, Operand sums, int64_t groups) {
  OpFoldResult members = b.indexAttr(sums.size(1) / groups);
  Sizes split = {b.sizesOf(sums.value)[0], b.indexAttr(groups), members};
  Value grouped = reshape(b.builder, b.loc, sums.value, split);
  return b.tensor(b.reduce({b.tensor(grouped, sums.dtype)}, split, {2},
                           Combine::Add, sums.dtype,
                           [](Body &, ArrayRef<Num> x) { return x[0]; }),
                  sums.dtype);
}

/// One number of each group for each of its channels: [N, groups] becomes
/// [N, C, 1...].
static Operand perMember(LoweringBuilder &b, const Norm &norm, Operand numbers,
                         int64_t groups) {
  Sizes column = {norm.sizes[0], b.indexAttr(groups), b.indexAttr(1)};
  Sizes split = column;
  split[2] = b.indexAttr(norm.input.size(1) / groups);
  Operand each =
      b.tensor(reshape(b.builder, b.loc, numbers.value, column), numbers.dtype);
  Value spread = b.elementwise({each}, norm.math, norm.math, split,
                               [](Body &, ArrayRef<Num> x) { return x[0]; });
  Sizes whole = {norm.sizes[0], norm.sizes[1]};
  whole.append(norm.dims.size(), b.indexAttr(1));
  return b.tensor(reshape(b.builder, b.loc, spread, whole), norm.math);
}

/// Group norm of channels that are neighbours in memory: sums of each channel
/// are vectors, and the result is x * scale + shift, which keeps the order.
static SmallVector<Value> groupNormOfChannels(ir::AtenOp op, LoweringBuilder &b,
                                              int64_t groups, double eps) {
  Norm norm;
  norm.input = b.operand("input");
  norm.sizes = b.sizesOf(norm.input.value);
  norm.math = norm.input.dtype.math();
  for (int64_t dim = 2; dim < norm.input.rank(); ++dim)
    norm.dims.push_back(dim);
  Norm group = norm; // all numbers of a group of channels
  group.sizes[1] = b.indexAttr(norm.input.size(1) / groups);
  group.dims.push_back(1);
  Operand count = countOf(b, group);
  Operand mean = quotient(b, norm, sumGroups(b, sumOf(b, norm), groups), count);
  Operand center = perMember(b, norm, mean, groups);
  Operand squares = squaresAround(b, norm, center);
  Operand rstd =
      inverseRoot(b, norm, sumGroups(b, squares, groups), count, eps);
  Value out = scaleAndShift(b, norm, center, perMember(b, norm, rstd, groups));
  return {out, statisticResult(op, b, 1, mean),
          statisticResult(op, b, 2, rstd)};
}

/// native_group_norm: splits channels into groups, and normalises each group
/// together with all following dimensions.
static Lowered lowerGroupNorm(ir::AtenOp op, LoweringBuilder &b) {
  Operand input = b.operand("input");
  auto groups = op.getIntArg("group");
  auto eps = op.getFloatArg("eps");
  if (!groups || !eps || input.size(1) < 0)
    return b.refuse("groups, channels or eps are no literals");
  if (input.rank() > 2 && comesWithChannelsLast(input.value))
    return groupNormOfChannels(op, b, *groups, *eps);
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
  Value out = normalize(b, norm, statistics.centers(), statistics.rstd,
                        perChannel(b, b.operand("weight"), split, inner),
                        perChannel(b, b.operand("bias"), split, inner),
                        b.resultDType());
  return SmallVector<Value>{reshape(b.builder, b.loc, out, sizes),
                            statisticResult(op, b, 1, statistics.mean),
                            statisticResult(op, b, 2, statistics.rstd)};
}

/// Normalises all dimensions but the channels, dimension 1, together.
static Norm batchOf(LoweringBuilder &b) {
  Norm norm;
  norm.input = b.operand("input");
  norm.sizes = b.sizesOf(norm.input.value);
  norm.math = norm.input.dtype.math();
  for (int64_t dim = 0; dim < norm.input.rank(); ++dim)
    if (dim != 1)
      norm.dims.push_back(dim);
  return norm;
}

/// Normalises the batch by its statistics, for each channel, in the result's
/// dtype.
static Value normalizeBatch(LoweringBuilder &b, const Norm &norm,
                            const Statistics &batch) {
  int64_t inner = norm.input.rank() - 2;
  auto channels = [&](Operand tensor) {
    return perChannel(b, tensor, norm.sizes[1], inner);
  };
  SmallVector<Operand> centers = batch.centers();
  for (Operand &center : centers)
    center = channels(center);
  return normalize(b, norm, centers, channels(batch.rstd),
                   channels(b.operand("weight")), channels(b.operand("bias")),
                   b.resultDType());
}

/// Batch norm in inference. The saved statistics are empty.
static Lowered lowerBatchNorm(ir::AtenOp op, LoweringBuilder &b) {
  auto eps = op.getFloatArg("eps");
  if (!eps)
    return b.refuse("eps is no literal");
  Norm norm = batchOf(b);
  Operand mean = b.operand("running_mean"), variance = b.operand("running_var");
  if (!mean || !variance)
    return b.refuse("no running statistics");
  Operand rstd = perRow(b, norm, {variance}, [&](Body &, ArrayRef<Num> x) {
    return s::rsqrt(x[0] + *eps);
  });
  int64_t inner = norm.input.rank() - 2;
  SmallVector<Value> results = {
      scaleAndShift(b, norm, perChannel(b, mean, norm.sizes[1], inner),
                    perChannel(b, rstd, norm.sizes[1], inner))};
  for (unsigned i = 1; i < 3; ++i)
    results.push_back(b.empty(op.getResultSizes(i), b.resultDType(i)));
  if (op.getNumResults() == 5) {
    results.push_back(b.convert(mean, b.resultDType(3)));
    results.push_back(b.convert(variance, b.resultDType(4)));
  }
  return results;
}

/// The running statistic, moved by `momentum` towards the batch's own, as
/// result `i`.
static Value movedStatistic(ir::AtenOp op, LoweringBuilder &b, const Norm &norm,
                            unsigned i, StringRef running, Operand own) {
  double momentum = op.getFloatArg("momentum").value_or(0);
  own.value = reshape(b.builder, b.loc, own.value, op.getResultSizes(i));
  Operand moved =
      perRow(b, norm, {own, b.operand(running)}, [&](Body &, ArrayRef<Num> x) {
        return momentum * x[0] + (1 - momentum) * x[1];
      });
  return b.convert(moved, b.resultDType(i));
}

/// Batch norm in training, by the batch's own statistics. The running ones, if
/// there are any, are the last results. The result before them is PyTorch's
/// reserved memory, which is empty on CPUs.
static Lowered lowerBatchNormTraining(ir::AtenOp op, LoweringBuilder &b) {
  if (!op.getBoolArg("training").value_or(true))
    return lowerBatchNorm(op, b);
  auto eps = op.getFloatArg("eps");
  if (!eps || !op.getFloatArg("momentum"))
    return b.refuse("eps or momentum is no literal");
  Norm norm = batchOf(b);
  Operand count = countOf(b, norm);
  Statistics batch = statisticsOf(b, norm, *eps);
  SmallVector<Value> results = {normalizeBatch(b, norm, batch),
                                statisticResult(op, b, 1, batch.mean),
                                statisticResult(op, b, 2, batch.rstd)};
  unsigned number = op.getNumResults();
  if (number == 6)
    results.push_back(b.empty(op.getResultSizes(3), b.resultDType(3)));
  if (number == 3)
    return results;
  Operand unbiased =
      perRow(b, norm, {batch.squares, count},
             [](Body &, ArrayRef<Num> x) { return x[0] / (x[1] - 1.0); });
  results.push_back(
      movedStatistic(op, b, norm, number - 2, "running_mean", batch.mean));
  results.push_back(
      movedStatistic(op, b, norm, number - 1, "running_var", unbiased));
  return results;
}

void anabranch::importer::registerNormalization(OpTable &table) {
  table.family("norm");
  table.add("native_layer_norm", lowerLayerNorm,
            "T(3, 8), [8], T(8), T(8), 1e-5; T(3, 4, 5), [4, 5], None, None, "
            "1e-5",
            Floats);
  table.add("layer_norm", lowerLayerNorm, "", Floats);
  table.addWhole("rms_norm", lowerRmsNorm, "T(3, 8), [8], T(8)", Floats);
  table.addWhole("_fused_rms_norm", lowerRmsNorm, "T(3, 8), [8], T(8), 1e-5",
                 Floats);
  table.add("native_group_norm", lowerGroupNorm,
            "T(2, 6, 5), T(6), T(6), 2, 6, 5, 3, 1e-5", Floats);
  table.add("_native_batch_norm_legit_no_training", lowerBatchNorm,
            "T(2, 3, 4), T(3), T(3), T(3), P(3), 0.1, 1e-5", Floats);
  table.add("_native_batch_norm_legit.no_stats", lowerBatchNormTraining,
            "T(2, 3, 4), T(3), None, True, 0.1, 1e-5; T(4, 3), None, None, "
            "True, 0.1, 1e-5",
            Floats);
  // Capture makes these calls from operators that write into running
  // statistics. In f16 their trace has other dtypes than they return, so they
  // have no samples.
  table.add("_native_batch_norm_legit_functional", lowerBatchNormTraining, "",
            Floats);
  table.add("_batch_norm_with_update_functional", lowerBatchNormTraining, "",
            Floats | U8);
}
