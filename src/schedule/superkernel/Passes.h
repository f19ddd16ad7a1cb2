//===- Passes.h - passes that make super kernels ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_SUPERKERNEL_PASSES_H
#define ANABRANCH_SCHEDULE_SUPERKERNEL_PASSES_H

#include "machine/limits/MachineRates.h"
#include "mlir/Pass/Pass.h"

namespace anabranch {

/// How super kernels are formed.
struct SuperOptions {
  bool find = false; ///< also form them of launches without a scope
};

/// `anabranch-keep-fences`: each command names the fences that come after and
/// before it, for the members of super kernels.
std::unique_ptr<mlir::Pass> createKeepFencesPass();

/// `anabranch-join-streams`: the streams of a super kernel that fuses streams
/// become one, before events are inserted.
std::unique_ptr<mlir::Pass> createJoinStreamsPass();

/// `anabranch-form-supers`: successive launches of one scope become
/// `anabranch.super`. With `find`, so do other launches where the model of the
/// machine promises a gain.
std::unique_ptr<mlir::Pass>
createFormSupersPass(const SuperOptions &options,
                     const machine::MachineRates &machine);

inline void registerSuperKernelPasses() {
  mlir::registerPass(createKeepFencesPass);
  mlir::registerPass(createJoinStreamsPass);
  mlir::registerPass([] {
    return createFormSupersPass(SuperOptions(), machine::MachineRates());
  });
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_SUPERKERNEL_PASSES_H
