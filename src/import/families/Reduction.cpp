//===- Reduction.cpp - sums, extremes, moments, norms ---------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/OpTable.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// The arguments `self`, `dim` and `keepdim` of a call.
struct Reduction {
  LoweringBuilder &b;
  Operand self;
  Sizes sizes;
  SmallVector<int64_t> dims; // reduced, ascending
  SmallVector<int64_t> kept; // the others
  bool keepdim = false;

  /// Combines `map` of every element over the reduced dimensions.
  Value reduce(Combine combine, DType accumulate,
               LoweringBuilder::BodyFn map) const {
    return b.reduce(self, sizes, dims, combine, accumulate, map);
  }
  /// Does the same with the value of each element's row beside the element.
  Value reduceWith(Value row, DType rowDType, Combine combine, DType accumulate,
                   LoweringBuilder::BodyFn map) const {
    return b.reduce({self, b.tensor(row, rowDType, kept)}, sizes, dims, combine,
                    accumulate, map);
  }
  Sizes keptSizes() const {
    Sizes result;
    for (int64_t dim : kept)
      result.push_back(sizes[dim]);
    return result;
  }
  /// Computes one value for each row from other such values.
  Value rows(ArrayRef<Operand> operands, DType dtype,
             LoweringBuilder::BodyFn map) const {
    return b.elementwiseMixed(operands, dtype, keptSizes(), map);
  }
  /// The result: converts the value, and restores the reduced dimensions if
  /// they are kept.
  Value finish(Value value, DType from, DType to) const {
    Value converted = b.convert(b.tensor(value, from), to);
    return keepdim ? b.unsqueeze(converted, dims) : converted;
  }
  /// The number of elements of a row, as a value in a body.
  Num count(Body &body, DType dtype, OpFoldResult size) const {
    if (auto constant = getConstantIntValue(size))
      return s::constant(body, dtype, *constant);
    return s::fromIndex(body, cast<Value>(size), dtype);
  }
  OpFoldResult rowSize() const {
    Sizes reduced;
    for (int64_t dim : dims)
      reduced.push_back(sizes[dim]);
    return b.product(reduced);
  }
};

} // namespace

/// The reduction over these dimensions; over all if the list is empty.
static Reduction reductionOf(ir::AtenOp op, LoweringBuilder &b,
                             ArrayRef<int64_t> dims) {
  Reduction r{b, b.operand("self"), {}, {}, {}};
  int64_t rank = r.self.rank();
  r.sizes = b.sizesOf(r.self.value);
  r.keepdim = op.getBoolArg("keepdim").value_or(false);
  for (int64_t dim = 0; dim < rank; ++dim) {
    bool reduced = dims.empty() || llvm::any_of(dims, [&](int64_t given) {
                     return b.wrapDim(given, rank) == dim;
                   });
    (reduced ? r.dims : r.kept).push_back(dim);
  }
  return r;
}

/// The reduction that `dim` names: an integer, a list, or None for all.
static Reduction reductionOf(ir::AtenOp op, LoweringBuilder &b) {
  return reductionOf(op, b,
                     op.getIntListArg("dim").value_or(SmallVector<int64_t>()));
}

//===----------------------------------------------------------------------===//
// Sums, products, truth
//===----------------------------------------------------------------------===//

/// Accumulates in f32 for f16 and bf16, in the result's dtype for others.
static Lowered accumulate(ir::AtenOp op, LoweringBuilder &b, Combine combine) {
  Reduction r = reductionOf(op, b);
  DType result = b.resultDType();
  Value value = r.reduce(combine, result.math(), [&](Body &, ArrayRef<Num> x) {
    return s::cast(x[0], result.math());
  });
  return lowered(r.finish(value, result.math(), result));
}

static Lowered lowerSum(ir::AtenOp op, LoweringBuilder &b) {
  return accumulate(op, b, Combine::Add);
}
static Lowered lowerProd(ir::AtenOp op, LoweringBuilder &b) {
  return accumulate(op, b, Combine::Mul);
}

/// The mean of every row, in `dtype`.
static Value meanOf(const Reduction &r, DType dtype) {
  Value sum = r.reduce(Combine::Add, dtype, [&](Body &, ArrayRef<Num> x) {
    return s::cast(x[0], dtype);
  });
  OpFoldResult size = r.rowSize();
  return r.rows(r.b.tensor(sum, dtype), dtype,
                [&](Body &body, ArrayRef<Num> x) {
                  return x[0] / r.count(body, dtype, size);
                });
}

static Lowered lowerMean(ir::AtenOp op, LoweringBuilder &b) {
  Reduction r = reductionOf(op, b);
  DType math = b.resultDType().math();
  return lowered(r.finish(meanOf(r, math), math, b.resultDType()));
}

static LoweringFn truthOf(Combine combine) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Attribute dim = op.getArg("dim");
    DType boolean = DType::boolean(b.context());
    // For these operators an empty list means no dimensions, unlike for other
    // reductions.
    if (auto list = dyn_cast_or_null<ArrayAttr>(dim); list && list.empty())
      return lowered(b.elementwiseMixed(
          b.operand("self"), b.resultDType(), b.resultSizes(),
          [&](Body &, ArrayRef<Num> x) { return s::cast(x[0], boolean); }));
    Reduction r = reductionOf(op, b);
    Value value = r.reduce(combine, boolean, [&](Body &, ArrayRef<Num> x) {
      return s::cast(x[0], boolean);
    });
    return lowered(r.finish(value, boolean, b.resultDType()));
  };
}

static Lowered lowerCountNonzero(ir::AtenOp op, LoweringBuilder &b) {
  Reduction r = reductionOf(op, b);
  DType result = b.resultDType();
  Value value = r.reduce(Combine::Add, result, [&](Body &, ArrayRef<Num> x) {
    return s::cast(s::cast(x[0], DType::boolean(b.context())), result);
  });
  return lowered(r.finish(value, result, result));
}

static void registerSums(OpTable &table) {
  table.add("sum", lowerSum, "T(3, 5)");
  table.add("sum.dim_IntList", lowerSum,
            "T(3, 5, 2), [0, -1]; T(3, 5), [1], True");
  table.add("mean", lowerMean, "T(3, 5)");
  table.add("mean.dim", lowerMean,
            "T(3, 5, 2), [0, -1]; T(3, 5), [1], True, dtype=torch.float32");
  table.add("prod", lowerProd, "T(3, 5)");
  table.add("prod.dim_int", lowerProd, "T(3, 5), 1");
  for (auto [name, combine] :
       {std::pair("any", Combine::Or), std::pair("all", Combine::And)}) {
    table.add(name, truthOf(combine), "T(3, 5)");
    table.add((StringRef(name) + ".dim").str(), truthOf(combine),
              "T(3, 5), 1, True");
    table.add((StringRef(name) + ".dims").str(), truthOf(combine),
              "T(3, 5, 2), [0, 1]");
  }
  table.add("count_nonzero", lowerCountNonzero, "T(3, 5), 1");
  table.add("count_nonzero.dim_IntList", lowerCountNonzero, "T(3, 5), [1]");
}

//===----------------------------------------------------------------------===//
// Extremes
//===----------------------------------------------------------------------===//

/// The extreme, in the elements' own dtype; NaN if there is one.
static Value extremeOf(const Reduction &r, Combine combine) {
  return r.reduce(combine, r.self.dtype.math(),
                  [](Body &, ArrayRef<Num> x) { return x[0]; });
}

/// The position of an element in its row, in row-major order of the reduced
/// dimensions.
static Num positionInRow(const Reduction &r, Body &body, DType dtype) {
  Num position = s::constant(body, dtype, int64_t(0));
  for (int64_t dim : r.dims) {
    Num size = r.count(body, dtype, r.sizes[dim]);
    position = position * size + s::cast(s::index(body, dim), dtype);
  }
  return position;
}

/// The position of the first extreme; of the first NaN if there is one.
static Value firstPositionOf(const Reduction &r, Value extreme) {
  auto size = getConstantIntValue(r.rowSize());
  bool narrow = size && *size < std::numeric_limits<int32_t>::max();
  DType dtype = DType::integer(r.b.context(), narrow ? 32 : 64);
  int64_t none = narrow ? std::numeric_limits<int32_t>::max()
                        : std::numeric_limits<int64_t>::max();
  Value first =
      r.reduceWith(extreme, r.self.dtype.math(), Combine::Min, dtype,
                   [&](Body &body, ArrayRef<Num> x) {
                     Num found = x[0] == x[1];
                     if (x[0].dtype.isFloat())
                       found = found | s::isNan(x[0]);
                     return s::select(found, positionInRow(r, body, dtype),
                                      s::constant(body, dtype, none));
                   });
  return r.b.convert(r.b.tensor(first, dtype),
                     DType::integer(r.b.context(), 64));
}

/// PyTorch itself raises an error for these.
static bool isOfNoElements(const Reduction &r) {
  return getConstantIntValue(r.rowSize()) == 0;
}

static LoweringFn extreme(Combine combine) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Reduction r = reductionOf(op, b);
    if (isOfNoElements(r))
      return b.refuse("an extreme of no elements");
    return lowered(
        r.finish(extremeOf(r, combine), r.self.dtype.math(), b.resultDType()));
  };
}

static LoweringFn extremeWithIndex(Combine combine) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Reduction r = reductionOf(op, b);
    if (isOfNoElements(r))
      return b.refuse("an extreme of no elements");
    Value value = extremeOf(r, combine);
    DType wide = DType::integer(b.context(), 64);
    Value index;
    if (!op.getResult(1).use_empty())
      index = r.finish(firstPositionOf(r, value), wide, wide);
    return SmallVector<Value>{
        r.finish(value, r.self.dtype.math(), b.resultDType()), index};
  };
}

static LoweringFn extremeIndex(Combine combine) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Reduction r = reductionOf(op, b);
    DType wide = DType::integer(b.context(), 64);
    Value index = firstPositionOf(r, extremeOf(r, combine));
    return lowered(r.finish(index, wide, wide));
  };
}

static Lowered lowerAminmax(ir::AtenOp op, LoweringBuilder &b) {
  Reduction r = reductionOf(op, b);
  DType math = r.self.dtype.math();
  Value low = extremeOf(r, Combine::Min), high = extremeOf(r, Combine::Max);
  return SmallVector<Value>{r.finish(low, math, b.resultDType(0)),
                            r.finish(high, math, b.resultDType(1))};
}

static void registerExtremes(OpTable &table) {
  for (auto [name, combine] :
       {std::pair("max", Combine::Max), std::pair("min", Combine::Min)}) {
    std::string base = name;
    table.add("a" + base, extreme(combine),
              "T(3, 5, 2), [0, -1]; T(3, 5), [1], True");
    table.add(base, extreme(combine), "T(3, 5)");
    table.add(base + ".dim", extremeWithIndex(combine),
              "T(3, 5), 1; T(3, 5), 0, True");
    table.add("arg" + base, extremeIndex(combine), "T(3, 5); T(3, 5), 1, True",
              Numbers);
  }
  table.add("aminmax", lowerAminmax, "T(3, 5); T(3, 5), dim=1");
}

//===----------------------------------------------------------------------===//
// Moments
//===----------------------------------------------------------------------===//

namespace {
struct Moments {
  Value mean, variance;
};
} // namespace

/// The mean, then the sums of the differences from it and of their squares, in
/// a second pass. Far from zero the mean is rounded by more than a small
/// variance: the sum of the differences says by how much.
static Moments momentsOf(const Reduction &r, ir::AtenOp op, DType dtype) {
  LoweringBuilder &b = r.b;
  double correction = op.getFloatArg("correction").value_or(1.0);
  Value mean = meanOf(r, dtype);
  Value squares = r.reduceWith(mean, dtype, Combine::Add, dtype,
                               [&](Body &, ArrayRef<Num> x) {
                                 Num difference = x[0] - x[1];
                                 return difference * difference;
                               });
  Value rest =
      r.reduceWith(mean, dtype, Combine::Add, dtype,
                   [&](Body &, ArrayRef<Num> x) { return x[0] - x[1]; });
  OpFoldResult size = r.rowSize();
  Value variance =
      r.rows({b.tensor(squares, dtype), b.tensor(rest, dtype)}, dtype,
             [&](Body &body, ArrayRef<Num> x) {
               Num count = r.count(body, dtype, size), zero = count.constant(0);
               Num sum = s::maximum(x[0] - x[1] * x[1] / count, zero);
               return sum / s::maximum(count - correction, zero);
             });
  return {mean, variance};
}

static LoweringFn moments(bool root, bool withMean) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Reduction r = reductionOf(op, b);
    DType result = b.resultDType(), math = result.math();
    if (r.self.dtype != result)
      return b.refuse("a result of another dtype");
    Moments m = momentsOf(r, op, math);
    if (root)
      m.variance =
          r.rows(b.tensor(m.variance, math), math,
                 [](Body &, ArrayRef<Num> x) { return s::sqrt(x[0]); });
    SmallVector<Value> values{r.finish(m.variance, math, result)};
    if (withMean)
      values.push_back(r.finish(m.mean, math, result));
    return values;
  };
}

static void registerMoments(OpTable &table) {
  StringRef samples = "T(3, 5, 2), [0, -1]; T(3, 5), [1], correction=0, "
                      "keepdim=True";
  table.add("var.correction", moments(false, false), samples, Floats);
  table.add("std.correction", moments(true, false), samples, Floats);
  table.add("var_mean.correction", moments(false, true), samples, Floats);
  table.add("std_mean.correction", moments(true, true), samples, Floats);
}

//===----------------------------------------------------------------------===//
// Norms
//===----------------------------------------------------------------------===//

/// The number that a norm adds up, or compares, for |x|.
static Num normTerm(Num x, double order) {
  if (order == 0)
    return s::cast(x != x.constant(0), x.dtype);
  if (order == 2)
    return x * x;
  if (order == 1 || std::isinf(order))
    return s::abs(x);
  return s::pow(s::abs(x), x.constant(order));
}

static Value normOf(const Reduction &r, DType math, double order) {
  Combine combine = !std::isinf(order) ? Combine::Add
                    : order > 0        ? Combine::Max
                                       : Combine::Min;
  Value sum = r.reduce(combine, math, [&](Body &, ArrayRef<Num> x) {
    return normTerm(s::cast(x[0], math), order);
  });
  if (order == 0 || order == 1 || std::isinf(order))
    return sum;
  return r.rows(r.b.tensor(sum, math), math, [&](Body &, ArrayRef<Num> x) {
    return order == 2 ? s::sqrt(x[0])
                      : s::pow(x[0], x[0].constant(1.0 / order));
  });
}

/// A norm. The argument `ord` or `p` gives the order; None means 2.
static LoweringFn norm(StringRef orderName) {
  std::string name = orderName.str();
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    if (!op.isNoneArg(name) && op.getArg(name) && !op.getFloatArg(name))
      return b.refuse("the order is no constant");
    Reduction r = reductionOf(op, b);
    DType result = b.resultDType(), math = result.math();
    double order = op.getFloatArg(name).value_or(2.0);
    // The infinite norm of an empty row has no value; PyTorch raises an error.
    return lowered(r.finish(normOf(r, math, order), math, result));
  };
}

/// log(sum(exp(x))), computed relative to the largest element.
static Lowered lowerLogSumExp(ir::AtenOp op, LoweringBuilder &b) {
  Reduction r = reductionOf(op, b);
  DType result = b.resultDType(), math = result.math();
  if (!r.self.dtype.isFloat())
    return b.refuse("integers");
  Value largest = extremeOf(r, Combine::Max);
  // An infinite maximum would give inf - inf, so zero takes its place.
  largest = r.rows(b.tensor(largest, math), math, [](Body &, ArrayRef<Num> x) {
    Num infinite = s::abs(x[0]) == x[0].constant(INFINITY);
    return s::select(infinite, x[0].constant(0), x[0]);
  });
  Value sum =
      r.reduceWith(largest, math, Combine::Add, math,
                   [](Body &, ArrayRef<Num> x) { return s::exp(x[0] - x[1]); });
  Value value =
      r.rows({b.tensor(sum, math), b.tensor(largest, math)}, math,
             [](Body &, ArrayRef<Num> x) { return s::log(x[0]) + x[1]; });
  return lowered(r.finish(value, math, result));
}

static void registerNorms(OpTable &table) {
  StringRef samples = "T(3, 5, 2), 2, [0, -1]; T(3, 5), 1, [1], True; "
                      "T(3, 5), 3, [1]; T(3, 5), float('inf'), [1]";
  table.add("linalg_vector_norm", norm("ord"), samples, Floats);
  table.add("norm.ScalarOpt_dim", norm("p"), samples, Floats);
  table.add("norm.ScalarOpt_dim_dtype", norm("p"), "", Floats);
  table.add("norm.ScalarOpt_dtype", norm("p"), "", Floats);
  table.add("norm.Scalar", norm("p"), "T(3, 5), 2", Floats);
  table.add("logsumexp", lowerLogSumExp,
            "T(3, 5, 2), [0, -1]; T(3, 5), [1], "
            "True",
            Floats);
}

void registerReduction(OpTable &table) {
  table.family("reduction");
  registerSums(table);
  registerExtremes(table);
  registerMoments(table);
  registerNorms(table);
}

} // namespace importer
} // namespace anabranch
