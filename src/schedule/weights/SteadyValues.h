//===- SteadyValues.h - what depends on weights only ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_STEADYVALUES_H
#define ANABRANCH_SCHEDULE_WEIGHTS_STEADYVALUES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace anabranch {
namespace schedule {

/// Remembers, for the tensors of one function, whether they depend on steady
/// arguments only (ir/SteadyInput.h).
class SteadyValues {
public:
  explicit SteadyValues(mlir::func::FuncOp main) : main(main) {}

  /// True if the value depends on steady arguments and literals only, and has a
  /// static shape.
  bool contains(mlir::Value value);

private:
  mlir::func::FuncOp main;
  llvm::DenseMap<mlir::Value, bool> known;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_STEADYVALUES_H
