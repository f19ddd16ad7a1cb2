//===- Passes.h - the passes of the schedule room ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_PASSES_H
#define ANABRANCH_SCHEDULE_PASSES_H

#include "schedule/fusion/Passes.h"
#include "schedule/memory/Passes.h"
#include "schedule/program/Passes.h"
#include "schedule/streams/Passes.h"
#include "schedule/superkernel/Passes.h"
#include "schedule/weights/Passes.h"

namespace anabranch {

/// Makes the passes of all wings known to command lines.
inline void registerSchedulePasses() {
  registerFusionPasses();
  registerProgramPasses();
  registerStreamPasses();
  registerSuperKernelPasses();
  registerMemoryPasses();
}

} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_PASSES_H
