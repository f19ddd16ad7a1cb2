//===- Passes.h - passes that make dispatches -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_FUSION_PASSES_H
#define ANABRANCH_SCHEDULE_FUSION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace anabranch {

/// `anabranch-sink-channels`: keeps channels last between convolutions, at
/// level "linalg".
std::unique_ptr<mlir::Pass> createSinkChannelsPass();

/// `anabranch-collapse-reshapes`: moves reshapes after the operators that read
/// them, at level "linalg".
std::unique_ptr<mlir::Pass> createCollapseReshapesPass();

/// `anabranch-split-reductions`: gives workers parts of large reductions, at
/// level "linalg".
std::unique_ptr<mlir::Pass> createSplitReductionsPass();

/// `anabranch-form-dispatches`: level "linalg" to level "dispatch".
std::unique_ptr<mlir::Pass> createFormDispatchesPass();

/// `anabranch-verify-dispatches`: fails unless @main holds only dispatches,
/// calls, whole-buffer reshapes and index arithmetic.
std::unique_ptr<mlir::Pass> createVerifyDispatchesPass();

inline void registerFusionPasses() {
  mlir::registerPass(createSinkChannelsPass);
  mlir::registerPass(createCollapseReshapesPass);
  mlir::registerPass(createSplitReductionsPass);
  mlir::registerPass(createFormDispatchesPass);
  mlir::registerPass(createVerifyDispatchesPass);
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_PASSES_H
