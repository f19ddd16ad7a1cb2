//===- Formula.h - lowerings that are one formula per element ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_FORMULA_H
#define ANABRANCH_IMPORT_LOWERING_FORMULA_H

#include "import/lowering/Lowering.h"

namespace anabranch {
namespace importer {

/// The elements of the named arguments, in order. An optional one that is
/// absent has no value.
using Elements = llvm::ArrayRef<Num>;
using Formula = std::function<Num(Elements)>;

/// The schema names of the arguments of a formula, tensors and numbers alike. A
/// leading '?' marks one that may be None.
using ArgumentNames = std::vector<std::string>;

/// Evaluates the formula in the result's dtype (f32 for f16 and bf16).
LoweringFn pointwise(ArgumentNames names, Formula formula);

/// Evaluates the formula in the promoted dtype of the arguments.
LoweringFn predicate(ArgumentNames names, Formula formula);

/// Evaluates the formula with each element in its own dtype (f32 for f16 and
/// bf16), and numbers in the result's.
LoweringFn selection(ArgumentNames names, Formula formula);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_FORMULA_H
