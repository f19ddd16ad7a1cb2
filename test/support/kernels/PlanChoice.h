//===- PlanChoice.h - which plan a kernel gets, for tests -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SUPPORT_CODEGEN_PLANCHOICE_H
#define ANABRANCH_SUPPORT_CODEGEN_PLANCHOICE_H

#include "kernels/Plans.h"
#include "support/native/ParsedKernel.h"

#include "gtest/gtest.h"

#include <string>

namespace anabranch {
namespace kernels {

/// What each plan of the kernel says, one a line.
inline std::string said(const std::vector<Considered> &considered) {
  std::string text = refusalsOf(considered);
  for (const Considered &one : considered)
    if (one.proposal.plan)
      text += "\n  " + one.row->name.str() + ": " +
              std::to_string(one.proposal.plan->cost()) + " cycles";
  return text;
}

/// Why the row has no plan for the kernel of a text; empty if it has one.
inline std::string refusalOf(const PlanRow &row, const std::string &text,
                             const native::TargetInfo &target) {
  native::ParsedKernel parsed(text);
  return row.propose(parsed.function(), target).refusal;
}

/// The name of the cheapest plan.
inline std::string cheapestPlan(mlir::func::FuncOp kernel,
                                const native::TargetInfo &target) {
  std::vector<Considered> considered = considerPlans(kernel, target);
  const Considered *chosen = choosePlan(considered);
  return chosen ? chosen->row->name.str() : "none";
}

/// The rows of the list go from special plans to general ones, and each refuses
/// the kernels for which measurements prefer a later row. So costs must agree
/// with measurements: of the plans that do not refuse, the first is the
/// cheapest.
inline void expectFirstIsCheapest(mlir::func::FuncOp kernel,
                                  const native::TargetInfo &target) {
  std::vector<Considered> considered = considerPlans(kernel, target);
  for (const Considered &one : considered)
    if (one.proposal.plan) {
      EXPECT_EQ(choosePlan(considered)->row->name.str(), one.row->name.str())
          << target.name << said(considered);
      return;
    }
  ADD_FAILURE() << "no plan makes the kernel" << refusalsOf(considered);
}

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_PLANCHOICE_H
