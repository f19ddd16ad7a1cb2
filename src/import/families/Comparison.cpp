//===- Comparison.cpp - comparisons, logic, bits and selection ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Formula.h"
#include "import/lowering/OpTable.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

//===----------------------------------------------------------------------===//
// Comparisons and tests
//===----------------------------------------------------------------------===//

static void addComparison(OpTable &table, StringRef name,
                          Num (*compare)(Num, Num)) {
  LoweringFn lower = predicate({"self", "other"},
                               [=](Elements x) { return compare(x[0], x[1]); });
  table.add((name + ".Tensor").str(), lower, "T(3, 5), T(5)");
  table.add((name + ".Scalar").str(), lower, "T(3, 5), 1; T(3, 5), 0.5");
}

static Num isInfinite(Num x) { return s::abs(x) == x.constant(INFINITY); }

/// The sign bit, also of -0.0 and NaN.
static Num signBit(Num x) {
  if (!x.dtype.isFloat())
    return x.dtype.isUnsigned || x.dtype.isBool() ? s::isNan(x)
                                                  : x < x.constant(0);
  return s::copysign(x.constant(1), x) < 0.0;
}

/// A test that is false for every value of a dtype other than floats.
static LoweringFn floatTest(Num (*test)(Num), bool otherwise = false) {
  return predicate({"self"}, [=](Elements x) {
    if (x[0].dtype.isFloat())
      return test(x[0]);
    DType boolean = DType::boolean(x[0].value.getContext());
    return s::constant(*x[0].body, boolean, int64_t(otherwise));
  });
}

static void registerTests(OpTable &table) {
  addComparison(table, "eq", operator==);
  addComparison(table, "ne", operator!=);
  addComparison(table, "lt", operator<);
  addComparison(table, "le", operator<=);
  addComparison(table, "gt", operator>);
  addComparison(table, "ge", operator>=);
  table.add("isnan", floatTest(s::isNan), "T(3, 5)");
  table.add("isinf", floatTest(isInfinite), "T(3, 5)");
  table.add("isfinite",
            floatTest([](Num x) { return s::abs(x) < x.constant(INFINITY); },
                      /*otherwise=*/true),
            "T(3, 5)");
  table.add("isposinf",
            floatTest([](Num x) { return x == x.constant(INFINITY); }),
            "T(3, 5)");
  table.add("isneginf",
            floatTest([](Num x) { return x == x.constant(-INFINITY); }),
            "T(3, 5)");
  table.add("signbit",
            predicate({"self"}, [](Elements x) { return signBit(x[0]); }),
            "T(3, 5)");
}

//===----------------------------------------------------------------------===//
// Logic and bits
//===----------------------------------------------------------------------===//

static Num truth(Num x) {
  return s::cast(x, DType::boolean(x.value.getContext()));
}

/// Combines the truth of each operand.
static LoweringFn logical(Num (*combine)(Num, Num)) {
  return [=](ir::AtenOp, LoweringBuilder &b) -> Lowered {
    Operand self = b.operand("self"), other = b.operand("other");
    return lowered(b.elementwiseMixed(
        {self, other}, b.resultDType(), b.resultSizes(),
        [&](Body &, Elements x) { return combine(truth(x[0]), truth(x[1])); }));
  };
}

/// A shift by any count is defined in PyTorch: the bits shifted out are zero.
static Num shiftLeft(Num x, Num count) {
  Body &body = *x.body;
  Num zero = x.constant(0);
  Num inside = (count >= zero) & (count < x.constant(int64_t(x.dtype.width())));
  Num safe = s::select(inside, count, zero);
  Num shifted{&body, body.create<arith::ShLIOp>(x.value, safe.value), x.dtype};
  return s::select(inside, shifted, zero);
}

static Num shiftRight(Num x, Num count) {
  Body &body = *x.body;
  Num zero = x.constant(0);
  Num last = x.constant(int64_t(x.dtype.width()) - 1);
  Num inside = (count >= zero) & (count <= last);
  if (x.dtype.isUnsigned) {
    Num safe = s::select(inside, count, zero);
    Num shifted{&body, body.create<arith::ShRUIOp>(x.value, safe.value),
                x.dtype};
    return s::select(inside, shifted, zero);
  }
  Num safe = s::select(inside, count, last);
  return {&body, body.create<arith::ShRSIOp>(x.value, safe.value), x.dtype};
}

/// `bitwise_and` and its older spelling `__and__`.
static void addBitwise(OpTable &table, StringRef name,
                       Num (*combine)(Num, Num)) {
  LoweringFn lower = pointwise({"self", "other"},
                               [=](Elements x) { return combine(x[0], x[1]); });
  DTypeSet dtypes = Ints | Bool;
  table.add(("bitwise_" + name + ".Tensor").str(), lower, "T(3, 5), T(5)",
            dtypes);
  table.add(("bitwise_" + name + ".Scalar").str(), lower, "T(3, 5), 1", dtypes);
  table.add(("bitwise_" + name + ".Scalar_Tensor").str(), lower, "1, T(3, 5)",
            dtypes);
  table.add(("__" + name + "__.Tensor").str(), lower, "", dtypes);
  table.add(("__" + name + "__.Scalar").str(), lower, "", dtypes);
}

static void addShift(OpTable &table, StringRef name, StringRef old,
                     Num (*shift)(Num, Num)) {
  LoweringFn lower = pointwise({"self", "other"},
                               [=](Elements x) { return shift(x[0], x[1]); });
  table.add((name + ".Tensor").str(), lower, "T(3, 5), I(7, 5)", Ints);
  table.add((name + ".Tensor_Scalar").str(), lower, "T(3, 5), 2", Ints);
  table.add((name + ".Scalar_Tensor").str(), lower, "1, I(7, 5)", Ints);
  table.add((old + ".Tensor").str(), lower, "", Ints);
  table.add((old + ".Scalar").str(), lower, "", Ints);
}

static void registerLogic(OpTable &table) {
  table.add("logical_and", logical(operator&), "T(3, 5), B(5)");
  table.add("logical_or", logical(operator|), "T(3, 5), B(5)");
  table.add("logical_xor", logical(operator^), "T(3, 5), B(5)");
  table.add("logical_not",
            predicate({"self"}, [](Elements x) { return !truth(x[0]); }),
            "T(3, 5)");
  addBitwise(table, "and", operator&);
  addBitwise(table, "or", operator|);
  addBitwise(table, "xor", operator^);
  table.add("bitwise_not",
            pointwise({"self"}, [](Elements x) { return !x[0]; }), "T(3, 5)",
            Ints | Bool);
  addShift(table, "bitwise_left_shift", "__lshift__", shiftLeft);
  addShift(table, "bitwise_right_shift", "__rshift__", shiftRight);
}

//===----------------------------------------------------------------------===//
// Selection
//===----------------------------------------------------------------------===//

/// Chooses, by a bool, between two values of the result's dtype.
static LoweringFn choose(ArgumentNames names, unsigned ifTrue, unsigned ifFalse,
                         unsigned condition) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    DType dtype = b.resultDType();
    return selection(names, [=](Elements x) {
      return s::select(truth(x[condition]), s::cast(x[ifTrue], dtype.math()),
                       s::cast(x[ifFalse], dtype.math()));
    })(op, b);
  };
}

static double largestFinite(DType dtype) {
  auto &semantics = cast<FloatType>(dtype.type).getFloatSemantics();
  APFloat largest = APFloat::getLargest(semantics);
  bool lossy;
  largest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
  return largest.convertToDouble();
}

static Lowered nanToNum(ir::AtenOp op, LoweringBuilder &b) {
  DType dtype = b.resultDType();
  if (!dtype.isFloat())
    return lowered(b.operand("self").value);
  double largest = largestFinite(dtype);
  double nan = op.getFloatArg("nan").value_or(0.0);
  double high = op.getFloatArg("posinf").value_or(largest);
  double low = op.getFloatArg("neginf").value_or(-largest);
  return pointwise({"self"}, [=](Elements e) {
    Num x = e[0];
    Num value = s::select(s::isNan(x), x.constant(nan), x);
    value = s::select(x == x.constant(INFINITY), x.constant(high), value);
    return s::select(x == x.constant(-INFINITY), x.constant(low), value);
  })(op, b);
}

static void registerSelection(OpTable &table) {
  LoweringFn where = choose({"condition", "self", "other"}, 1, 2, 0);
  table.add("where.self", where, "B(3, 5), T(5), T(3, 1)", Movable);
  table.add("where.ScalarSelf", where, "B(3, 5), 1, T(3, 1)", Movable);
  table.add("where.ScalarOther", where, "B(3, 5), T(5), 1", Movable);
  table.add("where.Scalar", where, "B(3, 5), 1.5, 2.5");
  LoweringFn masked = choose({"self", "mask", "value"}, 2, 0, 1);
  table.add("masked_fill.Scalar", masked, "T(3, 5), B(3, 1), 1", Movable);
  table.add("masked_fill.Tensor", masked, "T(3, 5), B(3, 1), T()", Movable);
  table.add("heaviside",
            pointwise({"self", "values"},
                      [](Elements x) {
                        Num zero = x[0].constant(0);
                        Num step = s::cast(x[0] > zero, x[0].dtype);
                        return s::select(x[0] == zero, x[1], step);
                      }),
            "T(3, 5), T(5)", Numbers);
  table.add("nan_to_num", nanToNum, "T(3, 5)");
}

void registerComparison(OpTable &table) {
  table.family("comparison");
  registerTests(table);
  registerLogic(table);
  registerSelection(table);
}

} // namespace importer
} // namespace anabranch
