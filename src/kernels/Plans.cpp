//===- Plans.cpp - the ways to make a kernel ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/Plans.h"

#include "ir/Explain.h"
#include "kernels/attention/AttentionKernel.h"
#include "kernels/gemm/GemmKernel.h"
#include "kernels/loops/LoopKernel.h"
#include "kernels/quantized/QuantizedKernel.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

ArrayRef<PlanRow> planRows() {
  static const PlanRow rows[] = {quantizedRow, gemmRow, attentionRow, loopsRow};
  return rows;
}

std::vector<Considered> considerPlans(func::FuncOp kernel,
                                      const native::TargetInfo &target) {
  std::vector<Considered> considered;
  for (const PlanRow &row : planRows())
    considered.push_back({&row, row.propose(kernel, target)});
  return considered;
}

Considered *cheapestOf(std::vector<Considered> &considered) {
  Considered *best = nullptr;
  for (Considered &one : considered)
    if (one.proposal.plan &&
        (!best || one.proposal.plan->cost() < best->proposal.plan->cost()))
      best = &one;
  return best;
}

std::string refusalsOf(const std::vector<Considered> &considered) {
  std::string text;
  for (const Considered &one : considered)
    if (!one.proposal.plan)
      text += "\n  " + one.row->name.str() + ": " + one.proposal.refusal;
  return text;
}

/// "row dots, about 8000 cycles".
static std::string nameWithCost(const Considered &one) {
  std::string cost = one.proposal.plan->cost().text();
  return one.row->name.str() + (cost.empty() ? "" : ", " + cost);
}

void explainPlans(func::FuncOp kernel,
                  const std::vector<Considered> &considered,
                  const Considered &chosen) {
  if (!ir::isExplaining(kernel.getContext()))
    return;
  // Rows often refuse for the same reason, for example that there is no
  // product.
  llvm::MapVector<StringRef, SmallVector<StringRef>> refused;
  for (const Considered &one : considered) {
    if (&one == &chosen)
      continue;
    if (one.proposal.plan)
      ir::explainRefusal(kernel.getLoc(), "made by " + nameWithCost(one),
                         nameWithCost(chosen) + " cost less");
    else
      refused[one.proposal.refusal].push_back(one.row->name);
  }
  for (const auto &[reason, names] : refused)
    ir::explainRefusal(kernel.getLoc(), "made by " + llvm::join(names, " or "),
                       reason);
}

} // namespace kernels
} // namespace anabranch
