//===- WeightFormula.h - how a weight is dequantised ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The formula of a frozen weight that a product reads, followed back to
// integers:
//
//   (integer - center) * scale + offset
//
// Floats of eight bits can be in the place of the integers, and so can numbers
// that the integers choose from a table.
//
// Scale and offset are formulas of other frozen tensors, the same for all
// depths of a group. The reader finds every order of operations that is linear
// in the integer: (w - z) * s, w * s - z, (w - 8) * (s * t) / u. Operations
// between the stored integers and the first linear arithmetic (masks, shifts,
// stacks of nibbles) belong to the integers.
//
// Formulas are computed in f32. Roundings to narrower floats are left out: they
// would only add errors.

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_WEIGHTFORMULA_H
#define ANABRANCH_SCHEDULE_WEIGHTS_WEIGHTFORMULA_H

#include "ir/QuantizedWeight.h"
#include "schedule/weights/DepthOrder.h"
#include "schedule/weights/Formula.h"
#include "schedule/weights/IntegerRange.h"
#include "schedule/weights/SteadyValues.h"

#include "mlir/IR/AffineMap.h"

#include <string>

namespace anabranch {
namespace schedule {

struct WeightFormula {
  TensorElement integer;
  mlir::Value table;  ///< null: the integers stand for themselves
  IntegerRange range; ///< of the integers; all of 8 bits for codes of floats
  double center = 0;
  Formula scale;  ///< null: one
  Formula offset; ///< null: zero
  int64_t group = 0;
  /// The order of the depths in which groups are runs, if it is not their own.
  std::optional<DepthOrder> order;
  /// Of frozen arguments, which may change after they were seen.
  llvm::SmallVector<Assumption> assumptions;

  /// The number format of the stored elements.
  ir::QuantizedWeight::Code code() const;

  /// The formula of an operand [columns, depths] of a product, or none and the
  /// reason. `map` gives the operand's dimensions as functions of column and
  /// depth.
  static std::optional<WeightFormula> find(mlir::Value operand,
                                           mlir::AffineMap map, int64_t columns,
                                           int64_t depths, SteadyValues &steady,
                                           std::string &why);
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_WEIGHTFORMULA_H
