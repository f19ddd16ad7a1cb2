//===- Creation.cpp - new tensors, copies and conversions -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/OpTable.h"

using namespace mlir;

namespace anabranch {
namespace importer {

//===----------------------------------------------------------------------===//
// Constant tensors
//===----------------------------------------------------------------------===//

static LoweringFn constant(int64_t number) {
  return [=](ir::AtenOp, LoweringBuilder &b) -> Lowered {
    return lowered(b.fill(b.resultSizes(), b.resultDType(), b.number(number)));
  };
}

/// The argument's elements, in the result's dtype and shape. A number or a 0-d
/// tensor fills the result.
static LoweringFn valuesOf(StringRef argument, const char *refusal) {
  std::string name = argument.str();
  return [=](ir::AtenOp, LoweringBuilder &b) -> Lowered {
    Operand value = b.operand(name);
    if (!value)
      return b.refuse(refusal);
    if (value.isTensor())
      return lowered(
          b.elementwiseMixed(value, b.resultDType(), b.resultSizes(),
                             [](Body &, ArrayRef<Num> x) { return x[0]; }));
    return lowered(b.fill(b.resultSizes(), b.resultDType(), value));
  };
}

static LoweringFn filled(StringRef argument) {
  return valuesOf(argument, "the value is no number");
}

static void registerConstants(OpTable &table) {
  table.add("full", filled("fill_value"), "[3, 5], 2, dtype=dtype", Movable);
  table.add("full_like", filled("fill_value"), "T(3, 5), 2", Movable);
  table.add("new_full", filled("fill_value"), "T(3), [3, 5], 2", Movable);
  table.add("fill.Scalar", filled("value"), "T(3, 5), 2", Movable);
  table.add("fill.Tensor", filled("value"), "T(3, 5), T()", Movable);
  table.add("scalar_tensor", filled("s"), "2, dtype=dtype", Movable);
  table.add("prims::scalar_tensor", filled("s"), "", Movable);
  table.add("zeros", constant(0), "[3, 5], dtype=dtype", Movable);
  table.add("zeros_like", constant(0), "T(3, 5)", Movable);
  table.add("new_zeros", constant(0), "T(3), [3, 5]", Movable);
  table.add("ones", constant(1), "[3, 5], dtype=dtype", Movable);
  table.add("ones_like", constant(1), "T(3, 5)", Movable);
  table.add("new_ones", constant(1), "T(3), [3, 5]", Movable);
  // PyTorch leaves these tensors undefined. Here they are zero.
  for (const char *name :
       {"empty.memory_format", "empty_like", "new_empty", "empty_strided",
        "new_empty_strided", "empty_permuted"})
    table.add(name, constant(0), "", Movable);
}

//===----------------------------------------------------------------------===//
// Ranges and masks
//===----------------------------------------------------------------------===//

/// start + i * step; in f64 for floats, so that every element is rounded once.
static Lowered range(LoweringBuilder &b, Operand start, Operand step) {
  if (!start || !step)
    return b.refuse("the bounds are no numbers");
  if (start.isTensor() || step.isTensor())
    return b.refuse("a bound is a tensor");
  DType result = b.resultDType();
  DType compute = result.isFloat() ? DType::f64(b.context())
                                   : DType::integer(b.context(), 64);
  return lowered(
      b.elementwise({start, step}, compute, result, b.resultSizes(),
                    [&](Body &body, ArrayRef<Num> x) {
                      return x[0] + s::cast(s::index(body, 0), compute) * x[1];
                    }));
}

static Lowered lowerArange(ir::AtenOp op, LoweringBuilder &b) {
  Operand start = b.operand("start"), step = b.operand("step");
  return range(b, start ? start : b.number(int64_t(0)),
               step ? step : b.number(int64_t(1)));
}

static Lowered lowerEye(ir::AtenOp, LoweringBuilder &b) {
  return lowered(b.elementwiseMixed(
      {}, b.resultDType(), b.resultSizes(), [](Body &body, ArrayRef<Num>) {
        return s::index(body, 0) == s::index(body, 1);
      }));
}

/// Sets the elements above, or below, a diagonal of the last two dimensions to
/// zero.
static LoweringFn triangle(bool lower) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Operand self = b.operand("self"), diagonal = b.operand("diagonal");
    if (!diagonal)
      return b.refuse("the diagonal is no number");
    int64_t rank = self.rank();
    return lowered(b.elementwiseMixed(
        {self, diagonal}, b.resultDType(), b.resultSizes(),
        [&](Body &body, ArrayRef<Num> x) {
          Num offset = s::index(body, rank - 1) - s::index(body, rank - 2);
          Num kept = lower ? offset <= x[1] : offset >= x[1];
          return s::select(kept, x[0], x[0].constant(0));
        }));
  };
}

static void registerRanges(OpTable &table) {
  table.add("arange", lowerArange, "7, dtype=dtype", Numbers);
  table.add("arange.start", lowerArange, "2, 7, dtype=dtype", Numbers);
  table.add("arange.start_step", lowerArange, "2, 9, 3, dtype=dtype", Numbers);
  table.add("prims::iota", lowerArange, "", Ints);
  table.add("eye", lowerEye, "4, dtype=dtype");
  table.add("eye.m", lowerEye, "4, 3, dtype=dtype");
  table.add("tril", triangle(true), "T(2, 4, 3); T(4, 3), -1");
  table.add("triu", triangle(false), "T(2, 4, 3); T(4, 3), 1");
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

static LoweringFn copied(StringRef argument) {
  return valuesOf(argument, "the source is no tensor");
}

/// Returns the argument itself.
static Lowered lowerSame(ir::AtenOp op, LoweringBuilder &b) {
  return lowered(op.getOperandArg("self"));
}

static void registerCopies(OpTable &table) {
  table.family("creation", Movable);
  table.add("_to_copy", copied("self"),
            "T(3, 5), dtype=torch.float32; T(3, 5), dtype=torch.int64");
  table.add("to.dtype", copied("self"));
  table.add("prims::convert_element_type", copied("a"));
  table.add("clone", copied("self"), "T(3, 5)");
  table.add("lift_fresh_copy", copied("self"));
  table.add("contiguous", copied("self"));
  table.add("copy", copied("src"), "T(3, 5), F(5)");
  for (const char *name : {"alias", "detach", "lift_fresh"})
    table.add(name, lowerSame);
}

void registerCreation(OpTable &table) {
  table.family("creation");
  registerConstants(table);
  registerRanges(table);
  registerCopies(table);
}

} // namespace importer
} // namespace anabranch
