//===- Formula.cpp - lowerings that are one formula per element -----------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "import/lowering/Formula.h"

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// The operands of a formula; absent optional ones are left out of `given`.
struct FormulaOperands {
  SmallVector<Operand> given;
  SmallVector<bool> isGiven;
};

} // namespace

static FailureOr<FormulaOperands> operandsOf(LoweringBuilder &b,
                                             const ArgumentNames &names) {
  FormulaOperands operands;
  for (StringRef name : names) {
    bool optional = name.consume_front("?");
    Operand operand = b.operand(name);
    if (!operand && !optional)
      return b.refuse("argument '" + name + "' is no tensor or number");
    operands.isGiven.push_back(bool(operand));
    if (operand)
      operands.given.push_back(operand);
  }
  return operands;
}

/// Calls the formula with empty elements where an argument is absent.
static Num evaluate(const Formula &formula, const FormulaOperands &operands,
                    ArrayRef<Num> elements) {
  SmallVector<Num> all;
  for (bool given : operands.isGiven) {
    all.push_back(given ? elements.front() : Num());
    elements = elements.drop_front(given);
  }
  return formula(all);
}

LoweringFn pointwise(ArgumentNames names, Formula formula) {
  return [=](ir::AtenOp, LoweringBuilder &b) -> Lowered {
    FailureOr<FormulaOperands> operands = operandsOf(b, names);
    if (failed(operands))
      return failure();
    DType dtype = b.resultDType();
    return lowered(b.elementwise(
        operands->given, dtype, dtype, b.resultSizes(),
        [&](Body &, Elements x) { return evaluate(formula, *operands, x); }));
  };
}

LoweringFn predicate(ArgumentNames names, Formula formula) {
  return [=](ir::AtenOp, LoweringBuilder &b) -> Lowered {
    FailureOr<FormulaOperands> operands = operandsOf(b, names);
    if (failed(operands))
      return failure();
    return lowered(b.elementwise(
        operands->given, b.promote(operands->given), b.resultDType(),
        b.resultSizes(),
        [&](Body &, Elements x) { return evaluate(formula, *operands, x); }));
  };
}

LoweringFn selection(ArgumentNames names, Formula formula) {
  return [=](ir::AtenOp, LoweringBuilder &b) -> Lowered {
    FailureOr<FormulaOperands> operands = operandsOf(b, names);
    if (failed(operands))
      return failure();
    for (Operand &operand : operands->given)
      if (operand.isScalar())
        operand.dtype = b.resultDType();
    return lowered(b.elementwiseMixed(
        operands->given, b.resultDType(), b.resultSizes(),
        [&](Body &, Elements x) { return evaluate(formula, *operands, x); }));
  };
}

} // namespace importer
} // namespace anabranch
