//===- Phases.h - the stages of a compilation -------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_PIPELINE_PHASES_H
#define ANABRANCH_PIPELINE_PHASES_H

#include "codegen/contraction/GemmBlocking.h"
#include "schedule/Passes.h"
#include "schedule/cost/MachineModel.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace anabranch {
namespace codegen {
struct TargetInfo;
} // namespace codegen
namespace pipeline {

/// In the order in which they run.
enum class Phase { Import, Lower, Fuse, Schedule, Memory, Codegen, Package };

struct PhaseInfo {
  Phase phase;
  llvm::StringLiteral name; ///< as in `stop`, `--until=` and dumps
  llvm::StringLiteral what;
};

llvm::ArrayRef<PhaseInfo> allPhases();
std::optional<Phase> findPhase(llvm::StringRef name);
const PhaseInfo &infoOf(Phase phase);

/// What becomes of the streams of a graph.
struct StreamOptions {
  bool repairHazards = false; ///< in-place writes wait for readers
  bool find = false;          ///< where `machine` promises gain
  schedule::MachineModel machine;
  SuperOptions supers;
};

/// Adds the passes up to linalg with attention whole, which proofs are made on.
void addProofPasses(mlir::OpPassManager &module);

/// Adds the passes of a phase that is made of passes (Lower to Memory). The
/// target must outlive them.
void addPasses(mlir::OpPassManager &module, Phase phase,
               const codegen::TargetInfo &target,
               const StreamOptions &streams = {},
               codegen::PanelsFor panels = codegen::PanelsFor::Rows);

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_PHASES_H
