//===- Activation.cpp - activation functions and their gradients ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Formula.h"
#include "import/lowering/OpTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <cmath>

using namespace mlir;

namespace anabranch {
namespace importer {

//===----------------------------------------------------------------------===//
// GELU
//===----------------------------------------------------------------------===//

static constexpr double tanhScale = M_SQRT2 * M_2_SQRTPI * 0.5;
static constexpr double tanhCubic = 0.044715;

/// Marks the function: codegen may compute it to fewer digits than a float has.
static void mayBeApproximate(Num x) {
  if (auto math = x.value.getDefiningOp<arith::ArithFastMathInterface>())
    math->setAttr(math.getFastMathAttrName(),
                  arith::FastMathFlagsAttr::get(math.getContext(),
                                                arith::FastMathFlags::afn));
}

/// If `isRounded`, the result becomes bf16.
static Num geluErf(Num x, bool isRounded) {
  Num erf = s::erf(x * M_SQRT1_2);
  if (isRounded)
    mayBeApproximate(erf);
  return x * 0.5 * (1.0 + erf);
}

static Num geluTanh(Num x) {
  Num inner = tanhScale * (x + tanhCubic * (x * x * x));
  return 0.5 * x * (1.0 + s::tanh(inner));
}

static Num geluErfGradient(Num x) {
  Num cdf = 0.5 * (1.0 + s::erf(x * M_SQRT1_2));
  Num pdf = s::exp(x * x * -0.5) * (M_2_SQRTPI * M_SQRT1_2 * 0.5);
  return cdf + x * pdf;
}

static Num geluTanhGradient(Num x) {
  Num inner = tanhScale * (x + tanhCubic * (x * x * x));
  Num tanh = s::tanh(inner);
  Num slope = tanhScale * (1.0 + 3.0 * tanhCubic * (x * x));
  return 0.5 * (1.0 + tanh) + 0.5 * x * (1.0 - tanh * tanh) * slope;
}

static Lowered lowerGelu(ir::AtenOp op, LoweringBuilder &b) {
  bool tanh = op.getStringArg("approximate") == StringRef("tanh");
  bool isRounded = b.resultDType().type.isBF16();
  return pointwise({"self"}, [=](Elements x) {
    return tanh ? geluTanh(x[0]) : geluErf(x[0], isRounded);
  })(op, b);
}

static Lowered lowerGeluBackward(ir::AtenOp op, LoweringBuilder &b) {
  bool tanh = op.getStringArg("approximate") == StringRef("tanh");
  return pointwise({"grad_output", "self"}, [=](Elements x) {
    return x[0] * (tanh ? geluTanhGradient(x[1]) : geluErfGradient(x[1]));
  })(op, b);
}

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

static Num clampTo(Num x, double low, double high) {
  return s::minimum(s::maximum(x, x.constant(low)), x.constant(high));
}

/// log(1 + exp(x)), which is x for large x.
static Num softplus(Num x) { return s::log1p(s::exp(x)); }

static void registerRectifiers(OpTable &table) {
  LoweringFn relu = pointwise(
      {"self"}, [](Elements x) { return s::maximum(x[0], x[0].constant(0)); });
  LoweringFn relu6 =
      pointwise({"self"}, [](Elements x) { return clampTo(x[0], 0, 6); });
  table.add("relu", relu, "T(3, 5)", Numbers);
  table.add("relu6", relu6, "T(3, 5)", Numbers);
  table.add("leaky_relu",
            pointwise({"self", "negative_slope"},
                      [](Elements x) {
                        return s::select(x[0] > 0.0, x[0], x[0] * x[1]);
                      }),
            "T(3, 5), 0.1", Floats);
  table.add("_prelu_kernel",
            pointwise({"self", "weight"},
                      [](Elements x) {
                        return s::select(x[0] > 0.0, x[0], x[0] * x[1]);
                      }),
            "T(3, 5), T(5)", Floats);
  table.add("elu",
            pointwise({"self", "alpha", "scale", "input_scale"},
                      [](Elements x) {
                        Num negative = s::expm1(x[0] * x[3]) * (x[1] * x[2]);
                        return s::select(x[0] < 0.0, negative, x[0] * x[2]);
                      }),
            "T(3, 5), 1.5", Floats);
  table.add("hardtanh",
            pointwise({"self", "min_val", "max_val"},
                      [](Elements x) {
                        return s::minimum(s::maximum(x[0], x[1]), x[2]);
                      }),
            "T(3, 5), -1, 2", Numbers);
  table.add(
      "threshold",
      pointwise({"self", "threshold", "value"},
                [](Elements x) { return s::select(x[0] <= x[1], x[2], x[0]); }),
      "T(3, 5), 0.5, 2", Numbers);
  table.add("softshrink",
            pointwise({"self", "lambd"},
                      [](Elements x) {
                        Num zero = x[0] * 0.0; // keeps NaN
                        Num low = s::select(x[0] < -x[1], x[0] + x[1], zero);
                        return s::select(x[0] > x[1], x[0] - x[1], low);
                      }),
            "T(3, 5), 0.5", Floats);
  table.add("hardshrink",
            pointwise({"self", "lambd"},
                      [](Elements x) {
                        Num inside = (x[0] >= -x[1]) & (x[0] <= x[1]);
                        return s::select(inside, x[0].constant(0), x[0]);
                      }),
            "T(3, 5), 0.5", Floats);
}

static void registerSmooth(OpTable &table) {
  table.add("gelu", lowerGelu, "T(3, 5); T(3, 5), approximate='tanh'", Floats);
  table.addWhole(
      "silu",
      pointwise({"self"},
                [](Elements x) { return x[0] / (1.0 + s::exp(-x[0])); }),
      "T(3, 5)", Floats);
  table.add(
      "mish",
      pointwise({"self"},
                [](Elements x) { return x[0] * s::tanh(softplus(x[0])); }),
      "T(3, 5)", Floats);
  table.add("softplus",
            pointwise({"self", "beta", "threshold"},
                      [](Elements x) {
                        Num scaled = x[0] * x[1];
                        return s::select(scaled > x[2], x[0],
                                         softplus(scaled) / x[1]);
                      }),
            "T(3, 5), 2, 3", Floats);
  table.add(
      "hardsigmoid",
      pointwise({"self"},
                [](Elements x) { return clampTo(x[0] + 3.0, 0, 6) / 6.0; }),
      "T(3, 5)", Floats);
  table.add("hardswish",
            pointwise({"self"},
                      [](Elements x) {
                        return x[0] * clampTo(x[0] + 3.0, 0, 6) / 6.0;
                      }),
            "T(3, 5)", Floats);
  LoweringFn logit = pointwise({"self", "?eps"}, [](Elements x) {
    Num p = x[0];
    if (x[1].value)
      p = s::minimum(s::maximum(p, x[1]), 1.0 - x[1]);
    return s::log(p / (1.0 - p));
  });
  table.add("logit", logit, "T(3, 5), 0.1");
  table.add("special_logit", logit);
  table.add(
      "log_sigmoid_forward",
      [](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
        if (!op.getResult(1).use_empty())
          return b.refuse("the buffer for the gradient is used");
        DType dtype = b.resultDType();
        Value value = b.elementwise(b.operand("self"), dtype, dtype,
                                    b.resultSizes(), [](Body &, Elements x) {
                                      Num zero = x[0].constant(0);
                                      return s::minimum(x[0], zero) -
                                             s::log1p(s::exp(-s::abs(x[0])));
                                    });
        return SmallVector<Value>{value, Value()};
      },
      "T(3, 5)", Floats);
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

static void registerRectifierGradients(OpTable &table) {
  table.add("threshold_backward",
            pointwise({"grad_output", "self", "threshold"},
                      [](Elements x) {
                        return s::select(x[1] <= x[2], x[0].constant(0), x[0]);
                      }),
            "T(3, 5), T(3, 5), 0", Numbers);
  table.add("hardtanh_backward",
            pointwise({"grad_output", "self", "min_val", "max_val"},
                      [](Elements x) {
                        Num outside = (x[1] <= x[2]) | (x[1] >= x[3]);
                        return s::select(outside, x[0].constant(0), x[0]);
                      }),
            "T(3, 5), T(3, 5), -1, 1", Floats);
  table.add("leaky_relu_backward",
            pointwise({"grad_output", "self", "negative_slope"},
                      [](Elements x) {
                        return s::select(x[1] > 0.0, x[0], x[0] * x[2]);
                      }),
            "T(3, 5), T(3, 5), 0.1, False", Floats);
  table.add(
      "elu_backward",
      [](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
        bool isResult = op.getBoolArg("is_result").value_or(false);
        return pointwise(
            {"grad_output", "alpha", "scale", "input_scale", "self_or_result"},
            [=](Elements x) {
              Num factor = x[1] * x[2];
              Num rest =
                  isResult ? x[4] + factor : s::exp(x[4] * x[3]) * factor;
              return s::select(x[4] <= 0.0, x[0] * x[3] * rest, x[0] * x[2]);
            })(op, b);
      },
      "T(3, 5), 1.5, 1, 1, False, T(3, 5)", Floats);
  table.add("hardsigmoid_backward",
            pointwise({"grad_output", "self"},
                      [](Elements x) {
                        Num inside = (x[1] > -3.0) & (x[1] < 3.0);
                        return s::select(inside, x[0] / 6.0, x[0].constant(0));
                      }),
            "T(3, 5), T(3, 5)", Floats);
  table.add("hardswish_backward",
            pointwise({"grad_output", "self"},
                      [](Elements x) {
                        Num middle = x[0] * (x[1] / 3.0 + 0.5);
                        Num upper = s::select(x[1] < 3.0, middle, x[0]);
                        return s::select(x[1] <= -3.0, x[0].constant(0), upper);
                      }),
            "T(3, 5), T(3, 5)", Floats);
}

static void registerSmoothGradients(OpTable &table) {
  table.add("gelu_backward", lowerGeluBackward,
            "T(3, 5), T(3, 5); T(3, 5), T(3, 5), approximate='tanh'", Floats);
  table.add("sigmoid_backward",
            pointwise({"grad_output", "output"},
                      [](Elements x) { return x[0] * (1.0 - x[1]) * x[1]; }),
            "T(3, 5), P(3, 5)", Floats);
  table.add("tanh_backward",
            pointwise({"grad_output", "output"},
                      [](Elements x) { return x[0] * (1.0 - x[1] * x[1]); }),
            "T(3, 5), P(3, 5)", Floats);
  table.add("silu_backward",
            pointwise({"grad_output", "self"},
                      [](Elements x) {
                        Num sigmoid = s::sigmoid(x[1]);
                        return x[0] * sigmoid * (1.0 + x[1] * (1.0 - sigmoid));
                      }),
            "T(3, 5), T(3, 5)", Floats);
  table.add("softplus_backward",
            pointwise({"grad_output", "self", "beta", "threshold"},
                      [](Elements x) {
                        Num z = s::exp(x[1] * x[2]);
                        return s::select(x[1] * x[2] > x[3], x[0],
                                         x[0] * z / (z + 1.0));
                      }),
            "T(3, 5), T(3, 5), 2, 3", Floats);
}

void registerActivation(OpTable &table) {
  table.family("activation");
  registerRectifiers(table);
  registerSmooth(table);
  registerRectifierGradients(table);
  registerSmoothGradients(table);
}

} // namespace importer
} // namespace anabranch
