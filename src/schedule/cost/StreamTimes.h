//===- StreamTimes.h - when streams come to their commands ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_COST_STREAMTIMES_H
#define ANABRANCH_SCHEDULE_COST_STREAMTIMES_H

#include "ir/Anabranch.h"
#include "machine/limits/MachineRates.h"

#include "llvm/ADT/DenseMap.h"

namespace anabranch {
namespace schedule {

/// Microseconds since the beginning of a call, by the cost model, as if every
/// stream had a worker of its own.
class StreamTimes {
public:
  StreamTimes(ir::ProgramOp program, const machine::MachineRates &machine);

  /// The time at which the stream reaches the command.
  double begin(mlir::Operation *command) const {
    return begins.lookup(command);
  }
  double recorded(int64_t event) const { return events.lookup(event); }

private:
  llvm::DenseMap<mlir::Operation *, double> begins;
  llvm::DenseMap<int64_t, double> events;
};

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_COST_STREAMTIMES_H
