//===- Phases.h - the stages of a compilation -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_PIPELINE_PHASES_H
#define ANABRANCH_PIPELINE_PHASES_H

#include "kernels/Panels.h"
#include "machine/limits/MachineRates.h"
#include "schedule/Passes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace anabranch {
namespace native {
struct TargetInfo;
} // namespace native
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

/// Schedule's settings for the streams of a graph.
struct StreamOptions {
  bool repairHazards = false; ///< order in-place writes after readers
  bool find = false; ///< also make streams where `machine` promises a gain
  machine::MachineRates machine;
  SuperOptions supers;
};

/// How products read their operands.
struct ProductOptions {
  kernels::PanelsFor panels = kernels::PanelsFor::Rows; ///< of constants
  /// Products by weights of few bits may round the other operand to bytes.
  bool roundsLeft = false;
};

/// Adds the passes that lower to linalg but leave attention whole. Padding is
/// proved on their result.
void addProofPasses(mlir::OpPassManager &module);

/// Adds the passes of a phase that is made of passes (Lower to Memory). The
/// target must outlive them.
void addPasses(mlir::OpPassManager &module, Phase phase,
               const native::TargetInfo &target,
               const StreamOptions &streams = {},
               const ProductOptions &products = {});

} // namespace pipeline
} // namespace anabranch

#endif // ANABRANCH_PIPELINE_PHASES_H
