//===- Steps.h - what each kind of step does --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_STEPS_H
#define ANABRANCH_RUNTIME_PLAN_STEPS_H

#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// The function of a kind of step; null for other commands.
StepFunction stepFunctionOf(package::Action action);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_STEPS_H
