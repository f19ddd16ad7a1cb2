//===- FormulaReader.h - the formula that makes a tensor --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_FORMULAREADER_H
#define ANABRANCH_SCHEDULE_WEIGHTS_FORMULAREADER_H

#include "schedule/weights/DepthOrder.h"
#include "schedule/weights/Formula.h"

#include <optional>

namespace anabranch {
namespace schedule {

struct ReadFormula {
  Formula formula;
  /// Of frozen arguments, which may change after they were seen.
  llvm::SmallVector<Assumption> assumptions;
  /// The order of the places that the formula names, if it names any.
  std::optional<DepthOrder> order;
};

/// Reads the operations that lead to a tensor as a formula. `map` gives the
/// tensor's dimensions as functions of column and depth. A value that no
/// formula can express becomes an element of its own.
ReadFormula readFormula(mlir::Value tensor, mlir::AffineMap map);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_FORMULAREADER_H
