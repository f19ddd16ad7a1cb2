//===- Plans.h - the ways to make a kernel ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_PLANS_H
#define ANABRANCH_KERNELS_PLANS_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// All rows. Of plans that cost about the same, that of the earlier row makes
/// the kernel.
llvm::ArrayRef<PlanRow> planRows();

/// A row's proposal for one kernel, or its refusal.
struct Considered {
  const PlanRow *row;
  Proposal proposal;
};

/// The proposals of all rows for a kernel of generics, in order of the rows.
std::vector<Considered> considerPlans(mlir::func::FuncOp kernel,
                                      const native::TargetInfo &target);
/// The plan of the row that the kernel's BlockingParameters want. If they want
/// none, or the row refuses: the cheapest plan. Null if all rows refuse.
Considered *choosePlan(std::vector<Considered> &considered,
                       llvm::StringRef wanted = {});
/// The reason of each row that refuses, one a line.
std::string refusalsOf(const std::vector<Considered> &considered);
/// Reports to the user why the kernel has the chosen plan and none of the
/// others.
void explainPlans(mlir::func::FuncOp kernel,
                  const std::vector<Considered> &considered,
                  const Considered &chosen);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_PLANS_H
