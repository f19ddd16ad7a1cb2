//===- Passes.h - passes that lay out memory --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_MEMORY_PASSES_H
#define ANABRANCH_SCHEDULE_MEMORY_PASSES_H

#include "mlir/Pass/Pass.h"

namespace anabranch {

/// `anabranch-plan-memory`: gives the arena's and the persistent buffers their
/// offsets.
std::unique_ptr<mlir::Pass> createPlanMemoryPass();

/// `anabranch-verify-program`: fails unless only kernels and a planned program
/// remain, and no two live buffers share bytes.
std::unique_ptr<mlir::Pass> createVerifyProgramPass();

inline void registerMemoryPasses() {
  mlir::registerPass(createPlanMemoryPass);
  mlir::registerPass(createVerifyProgramPass);
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_MEMORY_PASSES_H
