//===- Passes.h - passes that make streams and events -----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_STREAMS_PASSES_H
#define ANABRANCH_SCHEDULE_STREAMS_PASSES_H

#include "mlir/Pass/Pass.h"
#include "schedule/cost/MachineModel.h"

namespace anabranch {

/// `anabranch-number-fences`: fences let go of tensors and order by numbers.
std::unique_ptr<mlir::Pass> createNumberFencesPass();

/// `anabranch-assign-streams`: gives commands streams where the model of the
/// machine promises gain. A program that the user has marked stays as it is.
std::unique_ptr<mlir::Pass>
createAssignStreamsPass(const schedule::MachineModel &machine);

/// `anabranch-insert-events`: splits the program's one list of commands into
/// streams. An in-place write into an input that nothing orders with a reader
/// on another stream is an error, or waits if `repairHazards`.
std::unique_ptr<mlir::Pass> createInsertEventsPass(bool repairHazards = false);

inline void registerStreamPasses() {
  mlir::registerPass(createNumberFencesPass);
  mlir::registerPass(
      [] { return createAssignStreamsPass(schedule::MachineModel()); });
  mlir::registerPass([] { return createInsertEventsPass(); });
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_STREAMS_PASSES_H
