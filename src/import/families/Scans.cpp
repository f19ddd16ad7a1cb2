//===- Scans.cpp - running sums, products and extremes --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/OpTable.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace anabranch {
namespace importer {

/// Computes the next carried value from the carried value and the next element.
using StepFn = Num (*)(Num carried, Num element);

/// The running combination along `dim`. The first element is combined with
/// `start`, a value of the input's dtype.
static Value scanned(LoweringBuilder &b, Operand input, int64_t dim,
                     llvm::function_ref<Num(Body &)> start, StepFn step) {
  Body outer{b.builder, b.loc};
  auto made = b.create<ir::ScanOp>(input.value.getType(), input.value,
                                   start(outer).value,
                                   b.builder.getI64IntegerAttr(dim));
  OpBuilder::InsertionGuard guard(b.builder);
  Type type = input.dtype.type;
  Block *block =
      b.builder.createBlock(&made.getBody(), {}, {type, type}, {b.loc, b.loc});
  Num carried{&outer, block->getArgument(0), input.dtype};
  Num element{&outer, block->getArgument(1), input.dtype};
  b.create<ir::YieldOp>(step(carried, element).value);
  return made.getResult();
}

static int64_t scanDim(ir::AtenOp op, LoweringBuilder &b, int64_t rank) {
  return b.wrapDim(op.getIntArg("dim").value_or(0), rank);
}

static LoweringFn scan(double start, StepFn step) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Operand self = b.operand("self");
    DType result = b.resultDType(), math = result.math();
    if (result.isBool())
      return b.refuse("a result of bools");
    // Elements are converted to the result's dtype before they are combined.
    Operand input = b.tensor(b.convert(self, result), result);
    if (self.rank() == 0)
      return lowered(b.elementwiseMixed(
          input, result, {}, [](Body &, ArrayRef<Num> x) { return x[0]; }));
    input = b.tensor(b.convert(input, math), math);
    Value value = scanned(
        b, input, scanDim(op, b, self.rank()),
        [&](Body &body) { return s::constant(body, math, start); }, step);
    return lowered(b.convert(b.tensor(value, math), result));
  };
}

//===----------------------------------------------------------------------===//
// Running extremes with their positions
//===----------------------------------------------------------------------===//

/// The running maximum: NaN from the first NaN on. Of equal elements the last
/// one counts.
static Num runningMax(Num carried, Num element) {
  Num wins = (element >= carried) & !s::isNan(carried);
  return s::select(wins | s::isNan(element), element, carried);
}
static Num runningMin(Num carried, Num element) {
  Num wins = (element <= carried) & !s::isNan(carried);
  return s::select(wins | s::isNan(element), element, carried);
}

/// A number that loses against every element.
static Num weakest(Body &body, DType dtype, bool largest) {
  double infinity = std::numeric_limits<double>::infinity();
  if (dtype.isFloat())
    return s::constant(body, dtype, largest ? -infinity : infinity);
  unsigned width = dtype.width();
  APInt low = dtype.isUnsigned ? APInt::getMinValue(width)
                               : APInt::getSignedMinValue(width);
  return s::constant(body, dtype, (largest ? low : ~low).getSExtValue());
}

/// For each element, the last position up to it at which the element is the
/// extreme so far.
static Value positionsOf(LoweringBuilder &b, Operand input, Operand extremes,
                         int64_t dim) {
  DType wide = DType::integer(b.context(), 64);
  Value own = b.elementwiseMixed(
      {input, extremes}, wide, b.sizesOf(input.value),
      [&](Body &body, ArrayRef<Num> x) {
        Num isExtreme = (x[0] == x[1]) | s::isNan(x[0]);
        Num position = s::index(body, dim);
        return s::select(isExtreme, position, position.constant(0));
      });
  return scanned(
      b, b.tensor(own, wide), dim,
      [&](Body &body) { return s::constant(body, wide, int64_t(0)); },
      s::maximum);
}

static LoweringFn runningExtreme(bool largest) {
  return [=](ir::AtenOp op, LoweringBuilder &b) -> Lowered {
    Operand self = b.operand("self");
    DType result = b.resultDType(), math = result.math();
    if (self.rank() == 0)
      return SmallVector<Value>{self.value, b.fill({}, b.resultDType(1), 0)};
    if (result.isBool())
      math = {b.builder.getIntegerType(8), /*isUnsigned=*/true};
    int64_t dim = scanDim(op, b, self.rank());
    Operand input = b.tensor(b.convert(self, math), math);
    Operand extremes =
        b.tensor(scanned(
                     b, input, dim,
                     [&](Body &body) { return weakest(body, math, largest); },
                     largest ? runningMax : runningMin),
                 math);
    Value positions;
    if (!op.getResult(1).use_empty())
      positions = positionsOf(b, input, extremes, dim);
    return SmallVector<Value>{b.convert(extremes, result), positions};
  };
}

void registerScans(OpTable &table) {
  table.family("scan");
  StringRef samples = "T(3, 5), 1; T(3, 5), 0";
  table.add("cumsum", scan(0, operator+), samples);
  table.add("cumprod", scan(1, operator*), samples);
  table.add("logcumsumexp", scan(-INFINITY, s::logAddExp), samples, Floats);
  table.add("cummax", runningExtreme(true), samples);
  table.add("cummin", runningExtreme(false), samples);
}

} // namespace importer
} // namespace anabranch
