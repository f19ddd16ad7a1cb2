//===- Passes.h - passes that make the program ------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

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
