//===- CostModel.h - how long a command takes, roughly ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_COST_COSTMODEL_H
#define ANABRANCH_SCHEDULE_COST_COSTMODEL_H

#include "machine/limits/MachineRates.h"
#include "mlir/IR/BuiltinOps.h"

namespace anabranch {
namespace schedule {

/// The time that a command takes, in microseconds.
struct Cost {
  double alone;  ///< on one worker, while the others idle
  double beside; ///< on one worker, while the others are as busy
  double split;  ///< on all workers; `alone` if too small to split
  /// The part of `split` that goes into beginning the command, and into waiting
  /// for the last worker.
  double ending;
};

/// The cost of a command. A size that is not known counts as ir::typicalSize.
Cost costOf(mlir::Operation *command, mlir::ModuleOp module,
            const machine::MachineRates &machine);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_COST_COSTMODEL_H
