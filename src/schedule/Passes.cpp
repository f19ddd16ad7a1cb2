//===- Passes.cpp - the passes of the schedule room -----------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "schedule/Passes.h"

#include "mlir/Pass/Pass.h"
#include "schedule/cost/MachineModel.h"

void anabranch::registerSchedulePasses() {
  mlir::registerPass(createCollapseReshapesPass);
  mlir::registerPass(createNumberFencesPass);
  mlir::registerPass(createFormDispatchesPass);
  mlir::registerPass(createVerifyDispatchesPass);
  mlir::registerPass(createBuildProgramPass);
  mlir::registerPass(
      [] { return createAssignStreamsPass(schedule::MachineModel()); });
  mlir::registerPass([] { return createInsertEventsPass(); });
  mlir::registerPass(createKeepFencesPass);
  mlir::registerPass(createJoinLanesPass);
  mlir::registerPass([] {
    return createFormSupersPass(SuperOptions(), schedule::MachineModel());
  });
  mlir::registerPass(createPlanMemoryPass);
  mlir::registerPass(createVerifyProgramPass);
}
