//===- Steps.h - what each kind of step does --------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_PLAN_STEPS_H
#define ANABRANCH_RUNTIME_PLAN_STEPS_H

#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The function of a kind of step; null for other commands.
StepFunction stepFunctionOf(package::Action action);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_STEPS_H
