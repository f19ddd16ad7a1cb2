//===- Passes.h - passes that make streams and events -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_STREAMS_PASSES_H
#define ANABRANCH_SCHEDULE_STREAMS_PASSES_H

#include "machine/limits/MachineRates.h"
#include "mlir/Pass/Pass.h"

namespace anabranch {

/// `anabranch-number-fences`: fences order by numbers and pass no tensors.
std::unique_ptr<mlir::Pass> createNumberFencesPass();

/// `anabranch-assign-streams`: gives commands streams where the model of the
/// machine promises a gain. It leaves a program alone if the user marked
/// streams.
std::unique_ptr<mlir::Pass>
createAssignStreamsPass(const machine::MachineRates &machine);

/// `anabranch-insert-events`: splits the program's one list of commands into
/// streams. If nothing orders an in-place write into an input with a reader on
/// another stream, the pass reports an error, or adds a wait if
/// `repairHazards`.
std::unique_ptr<mlir::Pass> createInsertEventsPass(bool repairHazards = false);

inline void registerStreamPasses() {
  mlir::registerPass(createNumberFencesPass);
  mlir::registerPass(
      [] { return createAssignStreamsPass(machine::MachineRates()); });
  mlir::registerPass([] { return createInsertEventsPass(); });
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_STREAMS_PASSES_H
