//===- Passes.h - passes that make the program ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_PROGRAM_PASSES_H
#define ANABRANCH_SCHEDULE_PROGRAM_PASSES_H

#include "mlir/Pass/Pass.h"

namespace anabranch {

/// `anabranch-build-program`: level "dispatch" to kernels and a program.
std::unique_ptr<mlir::Pass> createBuildProgramPass();

inline void registerProgramPasses() {
  mlir::registerPass(createBuildProgramPass);
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PROGRAM_PASSES_H
