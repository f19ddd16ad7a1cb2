//===- BuildPlan.h - flatten a program for the executor ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_PLAN_BUILDPLAN_H
#define ANABRANCH_RUNTIME_PLAN_BUILDPLAN_H

#include "runtime/device/Library.h"
#include "runtime/plan/Plan.h"

namespace anabranch::runtime {

/// Builds the plan of one program of a checked package.
Status buildPlan(const package::Package &package,
                 const package::ProgramT &program, const Device &device,
                 HostCalls *host, const Library *library, Plan &plan);

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_PLAN_BUILDPLAN_H
