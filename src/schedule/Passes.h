//===- Passes.h - the passes of the schedule room ---------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_PASSES_H
#define ANABRANCH_SCHEDULE_PASSES_H

#include "llvm/ADT/SmallVector.h"

#include <functional>
#include <memory>
#include <optional>

namespace mlir {
class Pass;
namespace linalg {
class GenericOp;
} // namespace linalg
} // namespace mlir

namespace anabranch {
namespace schedule {
struct MachineModel;
} // namespace schedule

/// `anabranch-collapse-reshapes`: moves reshapes behind the operators that read
/// them, at level "linalg".
std::unique_ptr<mlir::Pass> createCollapseReshapesPass();

/// How an operand of a contraction is packed: [batch..., ceil(columns / width),
/// ceil(depths / kPack), width, kPack], without the last if the K-pack factor
/// is one.
struct PanelLayout {
  unsigned operand;
  llvm::SmallVector<unsigned> batch; ///< loops
  unsigned column, depth;            ///< loops
  int64_t width, kPack;
};
using ChoosePanels =
    std::function<std::optional<PanelLayout>(mlir::linalg::GenericOp)>;

/// `anabranch-pack-constants`: frozen operands of matrix products become panels
/// that are made once, at load, as `choose` says for each product.
std::unique_ptr<mlir::Pass> createPackConstantsPass(ChoosePanels choose);

/// `anabranch-number-fences`: fences let go of tensors and order by numbers.
std::unique_ptr<mlir::Pass> createNumberFencesPass();

/// `anabranch-form-dispatches`: level "linalg" to level "dispatch".
std::unique_ptr<mlir::Pass> createFormDispatchesPass();

/// `anabranch-verify-dispatches`: fails unless @main holds only dispatches,
/// calls, whole-buffer reshapes and index arithmetic.
std::unique_ptr<mlir::Pass> createVerifyDispatchesPass();

/// `anabranch-build-program`: level "dispatch" to kernels and a program.
std::unique_ptr<mlir::Pass> createBuildProgramPass();

/// `anabranch-assign-streams`: gives commands streams where the model of the
/// machine promises gain. A program that the user has marked stays as it is.
std::unique_ptr<mlir::Pass>
createAssignStreamsPass(const schedule::MachineModel &machine);

/// `anabranch-insert-events`: splits the program's one list of commands into
/// streams. An in-place write into an input that nothing orders with a reader
/// on another stream is an error, or waits if `repairHazards`.
std::unique_ptr<mlir::Pass> createInsertEventsPass(bool repairHazards = false);

/// How super kernels are formed.
struct SuperOptions {
  bool find = false;         ///< also of launches that no scope marks
  bool leaveDynamic = false; ///< launches of symbolic sizes are no error
};

/// `anabranch-keep-fences`: each command names the fences that it stands ahead
/// of or behind, for the members of super kernels.
std::unique_ptr<mlir::Pass> createKeepFencesPass();

/// `anabranch-join-lanes`: streams inside of a super kernel that is to fuse
/// them become one, before events are inserted.
std::unique_ptr<mlir::Pass> createJoinLanesPass();

/// `anabranch-form-supers`: launches of one scope that follow each other become
/// `anabranch.super`; with `find` also others, where the model of the machine
/// promises gain.
std::unique_ptr<mlir::Pass>
createFormSupersPass(const SuperOptions &options,
                     const schedule::MachineModel &machine);

/// `anabranch-plan-memory`: offsets for the program's arena and persistent
/// buffers.
std::unique_ptr<mlir::Pass> createPlanMemoryPass();

/// `anabranch-verify-program`: fails unless only kernels and a planned program
/// remain, and no two live buffers share bytes.
std::unique_ptr<mlir::Pass> createVerifyProgramPass();

/// Makes the passes of this room known to command lines.
void registerSchedulePasses();

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PASSES_H
