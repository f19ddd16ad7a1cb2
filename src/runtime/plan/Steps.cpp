//===- Steps.cpp - what each kind of step does ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/plan/Steps.h"

namespace anabranch::runtime {

namespace {

void copy(const Device &device, const TensorView *tensors) {
  device.copy(tensors[0], tensors[1]);
}

struct StepRow {
  package::Action action;
  StepFunction run;
};

/// A function gets the tensors that package/verify/Actions.cpp visits, in that
/// order.
constexpr StepRow steps[] = {
    {package::Action::Copy, copy},
};

} // namespace

StepFunction stepFunctionOf(package::Action action) {
  for (const StepRow &step : steps)
    if (step.action == action)
      return step.run;
  return nullptr;
}

} // namespace anabranch::runtime
