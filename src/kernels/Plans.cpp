//===- Plans.cpp - the ways to make a kernel ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/Plans.h"

#include "ir/Explain.h"
#include "kernels/attention/AttentionKernel.h"
#include "kernels/fft/FftKernel.h"
#include "kernels/gemm/ProductPlans.h"
#include "kernels/loops/LoopKernel.h"
#include "kernels/quantized/QuantizedKernel.h"
#include "kernels/tileblocks/TileBlocksPlan.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

ArrayRef<PlanRow> planRows() {
  static const PlanRow rows[] = {tileDigitsRow,
                                 vectorDigitsRow,
                                 tileBlocksRow,
                                 rowDotsRow,
                                 rowSumsRow,
                                 matrixBlocksRow,
                                 vectorBlocksRow,
                                 streamedAttentionRow,
                                 packedAttentionRow,
                                 tileAttentionRow,
                                 fftRow,
                                 loopsRow};
  return rows;
}

/// Whether the row is only for kernels that no other plan makes. Loops make any
/// kernel, but read both operands of a product again for each multiply-add, and
/// their estimate does not tell tiny kernels apart.
static bool isForTheRest(const PlanRow &row) {
  return row.name == loopsRow.name;
}

std::vector<Considered> considerPlans(func::FuncOp kernel,
                                      const native::TargetInfo &target) {
  std::vector<Considered> considered;
  bool isMade = false;
  for (const PlanRow &row : planRows()) {
    Proposal proposal =
        isMade && isForTheRest(row)
            ? Proposal::refuse("it makes kernels that no other plan makes")
            : row.propose(kernel, target);
    isMade |= proposal.plan != nullptr;
    considered.push_back({&row, std::move(proposal)});
  }
  return considered;
}

/// Estimates err by some percent. So a later row, which is made for more
/// kernels than the earlier ones, must save a tenth.
static constexpr double leastGain = 0.9;

Considered *choosePlan(std::vector<Considered> &considered, StringRef wanted) {
  Considered *best = nullptr;
  for (Considered &one : considered)
    if (one.proposal.plan && one.row->name == wanted)
      return &one;
  for (Considered &one : considered)
    if (one.proposal.plan &&
        (!best ||
         one.proposal.plan->cost() < leastGain * best->proposal.plan->cost()))
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

static std::string costOf(const Considered &one) {
  return llvm::formatv(" (about {0:f0} cycles)", one.proposal.plan->cost())
      .str();
}

/// Why another plan was chosen than this one.
static std::string whyInstead(const Considered &chosen, const Considered &one) {
  double cost = chosen.proposal.plan->cost(), other = one.proposal.plan->cost();
  std::string name = chosen.row->name.str();
  // Rows of the list are in the order of `considered`.
  if (&chosen > &one ? cost >= leastGain * other : other < leastGain * cost)
    return "tuning gave " + name + " to the kernel";
  return cost < other ? name + " costs less" + costOf(chosen)
                      : name + " comes first, and this plan saves too little";
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
      ir::explainRefusal(kernel.getLoc(),
                         "made by " + one.row->name.str() + costOf(one),
                         whyInstead(chosen, one));
    else
      refused[one.proposal.refusal].push_back(one.row->name);
  }
  for (const auto &[reason, names] : refused)
    ir::explainRefusal(kernel.getLoc(), "made by " + llvm::join(names, " or "),
                       reason);
}

} // namespace kernels
} // namespace anabranch
