//===- Formula.cpp - lowerings that are one formula per element -----------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Formula.h"

using namespace mlir;

namespace anabranch {
namespace importer {

namespace {

/// The operands of a formula. `given` leaves out optional ones that are absent.
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

/// Calls the formula. An absent argument is an empty element.
static Num evaluate(const Formula &formula, const FormulaOperands &operands,
                    ArrayRef<Num> elements) {
  SmallVector<Num> all;
  for (bool given : operands.isGiven) {
    all.push_back(given ? elements.front() : Num());
    elements = elements.drop_front(given);
  }
  return formula(all);
}

/// One elementwise operation that evaluates the formula. `build` chooses the
/// dtypes.
static LoweringFn
evaluated(const ArgumentNames &names, const Formula &formula,
          std::function<Value(LoweringBuilder &, SmallVectorImpl<Operand> &,
                              LoweringBuilder::BodyFn)>
              build) {
  return [=](ir::AtenOp, LoweringBuilder &b) -> Lowered {
    FailureOr<FormulaOperands> operands = operandsOf(b, names);
    if (failed(operands))
      return failure();
    return lowered(build(b, operands->given, [&](Body &, Elements x) {
      return evaluate(formula, *operands, x);
    }));
  };
}

LoweringFn pointwise(ArgumentNames names, Formula formula) {
  return evaluated(names, formula, [](LoweringBuilder &b, auto &given, auto f) {
    DType dtype = b.resultDType();
    return b.elementwise(given, dtype, dtype, b.resultSizes(), f);
  });
}

LoweringFn predicate(ArgumentNames names, Formula formula) {
  return evaluated(names, formula, [](LoweringBuilder &b, auto &given, auto f) {
    return b.elementwise(given, b.promote(given), b.resultDType(),
                         b.resultSizes(), f);
  });
}

LoweringFn selection(ArgumentNames names, Formula formula) {
  return evaluated(names, formula, [](LoweringBuilder &b, auto &given, auto f) {
    for (Operand &operand : given)
      if (operand.isScalar())
        operand.dtype = b.resultDType();
    return b.elementwiseMixed(given, b.resultDType(), b.resultSizes(), f);
  });
}

} // namespace importer
} // namespace anabranch
