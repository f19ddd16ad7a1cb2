//===- Pointwise.cpp - arithmetic and functions of one element ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Formula.h"
#include "import/lowering/OpTable.h"

#include <cmath>

using namespace mlir;

namespace anabranch {
namespace importer {

//===----------------------------------------------------------------------===//
// Functions of one number
//===----------------------------------------------------------------------===//

/// A function on floats. Integers are converted to the result's float dtype.
static LoweringFn function(Num (*apply)(Num)) {
  return pointwise({"self"}, [=](Elements x) { return apply(x[0]); });
}

static void registerFunctions(OpTable &table) {
#define ANABRANCH_MATH_FUNCTION(NAME, OPERATION, SAMPLES)                      \
  table.add(#NAME, function(s::NAME), SAMPLES);
#include "import/scalar/MathFunctions.def"
  table.add("sigmoid", function(s::sigmoid), "T(3, 5)");
  table.add("reciprocal", function(s::reciprocal), "P(3, 5)");
  table.add(
      "deg2rad",
      pointwise({"self"}, [](Elements x) { return x[0] * (M_PI / 180.0); }),
      "T(3, 5)");
  table.add(
      "rad2deg",
      pointwise({"self"}, [](Elements x) { return x[0] * (180.0 / M_PI); }),
      "T(3, 5)");
}

/// 10 to a small power, with the bits that the C library returns.
static double powerOfTen(int64_t exponent) {
  return std::pow(10.0, static_cast<double>(exponent));
}

static Lowered roundDecimals(ir::AtenOp op, LoweringBuilder &b) {
  int64_t decimals = op.getIntArg("decimals").value_or(0);
  DType dtype = b.resultDType();
  return lowered(b.elementwise(b.operand("self"), dtype, dtype, b.resultSizes(),
                               [&](Body &, Elements x) {
                                 if (!dtype.isFloat() || decimals == 0)
                                   return s::roundeven(x[0]);
                                 double scale = powerOfTen(std::abs(decimals));
                                 return decimals > 0
                                            ? s::roundeven(x[0] * scale) / scale
                                            : s::roundeven(x[0] / scale) *
                                                  scale;
                               }));
}

static void registerSignAndRounding(OpTable &table) {
  table.add("neg", pointwise({"self"}, [](Elements x) { return -x[0]; }),
            "T(3, 5)", Numbers);
  table.add("abs", function(s::abs), "T(3, 5)", Numbers);
  table.add("sign", function(s::sign), "T(3, 5)");
  table.add("sgn", function(s::sign), "T(3, 5)");
  table.add("floor", function(s::floor), "T(3, 5)", Numbers);
  table.add("ceil", function(s::ceil), "T(3, 5)", Numbers);
  table.add("trunc", function(s::trunc), "T(3, 5)", Numbers);
  table.add("fix", function(s::trunc), "T(3, 5)", Numbers);
  table.add("round", function(s::roundeven), "T(3, 5)", Numbers);
  table.add("round.decimals", roundDecimals, "T(3, 5), decimals=1", Floats);
  table.add(
      "frac",
      pointwise({"self"}, [](Elements x) { return x[0] - s::trunc(x[0]); }),
      "T(3, 5)", Floats);
  table.add("square",
            pointwise({"self"}, [](Elements x) { return x[0] * x[0]; }),
            "T(3, 5)");
  table.add("angle",
            pointwise({"self"},
                      [](Elements x) {
                        Num zero = x[0].constant(0);
                        Num half = x[0].constant(M_PI);
                        Num turn = s::select(x[0] < zero, half, zero);
                        return s::select(s::isNan(x[0]), x[0], turn);
                      }),
            "T(3, 5)");
  table.add("positive", pointwise({"self"}, [](Elements x) { return x[0]; }),
            "T(3, 5)", Numbers);
}

//===----------------------------------------------------------------------===//
// Arithmetic of two and three numbers
//===----------------------------------------------------------------------===//

/// One row for each overload of the names "Tensor" and "Scalar".
static void addBinary(OpTable &table, StringRef name, const LoweringFn &lower,
                      StringRef tensorSamples, StringRef scalarSamples,
                      DTypeSet dtypes = AllDTypes) {
  table.add((name + ".Tensor").str(), lower, tensorSamples, dtypes);
  table.add((name + ".Scalar").str(), lower, scalarSamples, dtypes);
}

static void registerArithmetic(OpTable &table) {
  addBinary(table, "add",
            pointwise({"self", "other", "alpha"},
                      [](Elements x) { return x[0] + x[1] * x[2]; }),
            "T(3, 5), T(5); T(2, 1), T(1, 3), alpha=2", "T(3, 5), 2");
  addBinary(table, "sub",
            pointwise({"self", "other", "alpha"},
                      [](Elements x) { return x[0] - x[1] * x[2]; }),
            "T(3, 5), T(5)", "T(3, 5), 2", Numbers);
  addBinary(table, "rsub",
            pointwise({"self", "other", "alpha"},
                      [](Elements x) { return x[1] - x[0] * x[2]; }),
            "T(3, 5), T(5)", "T(3, 5), 2", Numbers);
  addBinary(
      table, "mul",
      pointwise({"self", "other"}, [](Elements x) { return x[0] * x[1]; }),
      "T(3, 5), T(5)", "T(3, 5), 2");
  table.add("addcmul",
            pointwise({"self", "value", "tensor1", "tensor2"},
                      [](Elements x) { return x[0] + x[1] * x[2] * x[3]; }),
            "T(3, 5), T(5), T(3, 1), value=2", Numbers);
  // Dynamo computes `addcmul_` and `addcdiv_` with a value by it.
  table.add(
      "prims::fma",
      pointwise({"a", "b", "c"}, [](Elements x) { return x[0] * x[1] + x[2]; }),
      "", Numbers);
  table.add("addcdiv",
            pointwise({"self", "value", "tensor1", "tensor2"},
                      [](Elements x) { return x[0] + x[1] * x[2] / x[3]; }),
            "T(3, 5), T(5), P(3, 1), value=2", Floats);
  LoweringFn lerp = pointwise({"self", "end", "weight"}, [](Elements x) {
    Num difference = x[1] - x[0];
    return s::select(s::abs(x[2]) < 0.5, x[0] + x[2] * difference,
                     x[1] - difference * (1.0 - x[2]));
  });
  table.add("lerp.Scalar", lerp, "T(3, 5), T(5), 0.25", Floats);
  table.add("lerp.Tensor", lerp, "T(3, 5), T(5), T(3, 1)", Floats);
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

/// For bools alone PyTorch has no kernel. With a number beside them the result
/// is an integer.
static LoweringFn unlessBool(LoweringFn lower) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    if (b.resultDType().isBool())
      return b.refuse("PyTorch has no such kernel for bool");
    return lower(op, b);
  };
}

static Num divideTrunc(Elements x) {
  if (x[0].dtype.isFloat())
    return s::trunc(x[0] / x[1]);
  Num divisor = s::guardedDivisor(x[1]);
  return s::truncatedQuotient(x[0], divisor);
}

static Num divideFloor(Elements x) { return s::floorDivide(x[0], x[1]); }

static Lowered divideWithMode(ir::AtenOp op, LoweringBuilder &b) {
  std::optional<StringRef> mode = op.getStringArg("rounding_mode");
  if (!mode)
    return pointwise({"self", "other"},
                     [](Elements x) { return x[0] / x[1]; })(op, b);
  if (*mode == "trunc")
    return pointwise({"self", "other"}, divideTrunc)(op, b);
  if (*mode == "floor")
    return pointwise({"self", "other"}, divideFloor)(op, b);
  return b.refuse("rounding mode '" + *mode + "'");
}

static void registerDivision(OpTable &table) {
  LoweringFn divide =
      pointwise({"self", "other"}, [](Elements x) { return x[0] / x[1]; });
  addBinary(table, "div", divide, "T(3, 5), P(5)", "T(3, 5), 2");
  // After the trace, which takes this operator apart, PyTorch computes what a
  // graph does with numbers of a call in tensors.
  table.add("true_divide.Tensor", divide, "");
  table.add("div.Tensor_mode", unlessBool(divideWithMode),
            "T(3, 5), P(5), rounding_mode='floor'; "
            "T(3, 5), P(5), rounding_mode='trunc'");
  table.add("div.Scalar_mode", unlessBool(divideWithMode),
            "T(3, 5), 2, rounding_mode='floor'; "
            "T(3, 5), -2, rounding_mode='trunc'");
  LoweringFn floorDivide =
      unlessBool(pointwise({"self", "other"}, divideFloor));
  table.add("floor_divide", floorDivide, "T(3, 5), P(5)");
  table.add("floor_divide.Scalar", floorDivide, "T(3, 5), 2");
  LoweringFn remainder = unlessBool(pointwise(
      {"self", "other"}, [](Elements x) { return s::remainder(x[0], x[1]); }));
  addBinary(table, "remainder", remainder, "T(3, 5), P(5)", "T(3, 5), -2");
  table.add("remainder.Scalar_Tensor", remainder, "7, P(5)");
  addBinary(table, "fmod",
            unlessBool(pointwise(
                {"self", "other"},
                [](Elements x) { return s::truncatedRemainder(x[0], x[1]); })),
            "T(3, 5), P(5)", "T(3, 5), -2");
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

static void registerLimits(OpTable &table) {
  struct Row {
    const char *name;
    Num (*apply)(Num, Num);
  };
  static const Row rows[] = {{"maximum", s::maximum},
                             {"minimum", s::minimum},
                             {"fmax", s::fmax},
                             {"fmin", s::fmin}};
  for (const Row &row : rows)
    table.add(row.name,
              pointwise({"self", "other"},
                        [apply = row.apply](Elements x) {
                          return apply(x[0], x[1]);
                        }),
              "T(3, 5), T(5)");
  LoweringFn clamp = pointwise({"self", "?min", "?max"}, [](Elements x) {
    Num value = x[1].value ? s::maximum(x[0], x[1]) : x[0];
    return x[2].value ? s::minimum(value, x[2]) : value;
  });
  table.add("clamp", unlessBool(clamp), "T(3, 5), -1, 1; T(3, 5), None, 1");
  table.add("clamp.Tensor", clamp, "T(3, 5), T(5), T(3, 1)");
  static const Row limits[] = {{"min", s::maximum}, {"max", s::minimum}};
  for (const Row &limit : limits) {
    LoweringFn oneSided =
        pointwise({"self", limit.name}, [apply = limit.apply](Elements x) {
          return apply(x[0], x[1]);
        });
    std::string name = std::string("clamp_") + limit.name;
    table.add(name, unlessBool(oneSided), "T(3, 5), 0");
    table.add(name + ".Tensor", oneSided, "T(3, 5), T(5)");
  }
}

void registerPointwise(OpTable &table) {
  table.family("pointwise");
  registerFunctions(table);
  registerSignAndRounding(table);
  registerArithmetic(table);
  registerDivision(table);
  registerLimits(table);
}

} // namespace importer
} // namespace anabranch
