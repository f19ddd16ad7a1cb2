//===- Tuning.cpp - plans of kernels that were timed ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/Tuning.h"

#include "kernels/EmitKernel.h"
#include "kernels/Plans.h"
#include "kernels/contraction/BlockingParameters.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

#include <tuple>

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

/// The text of the function, without its name, its locations, and attributes
/// that do not change the loops of a tile.
std::string keyOf(func::FuncOp kernel) {
  OwningOpRef<func::FuncOp> copy = kernel.clone();
  copy->setSymName("kernel");
  (*copy)->removeAttr("anabranch.footprint");
  (*copy)->removeAttr(BlockingParameters::attribute);
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*copy)->print(stream, OpPrintingFlags().enableDebugInfo(false));
  auto hash = llvm::SHA256::hash(llvm::arrayRefFromStringRef(text));
  return llvm::toHex(hash, /*LowerCase=*/true).substr(0, 32);
}

/// The candidates of all plans, by their estimates. The compiler's own choice
/// is the first, with an empty text.
std::vector<TunableKernel::Candidate>
candidatesOf(std::vector<Considered> &considered) {
  using Candidate = TunableKernel::Candidate;
  const Considered *chosen = choosePlan(considered);
  std::vector<Candidate> all;
  std::optional<Candidate> first;
  for (const Considered &one : considered) {
    if (!one.proposal.plan)
      continue;
    for (const PlanCandidate &found : one.proposal.plan->candidates()) {
      if (&one == chosen && found.parameters.empty()) {
        first = Candidate{"", found.cycles};
        continue;
      }
      std::string text = "plan=" + one.row->name.str();
      if (!found.parameters.empty())
        text += "," + found.parameters;
      all.push_back({text, found.cycles});
    }
  }
  if (!first)
    return {};
  llvm::sort(all, [](const Candidate &a, const Candidate &b) {
    return std::tuple(a.cycles, a.parameters.size(), a.parameters) <
           std::tuple(b.cycles, b.parameters.size(), b.parameters);
  });
  all.insert(all.begin(), *first);
  return all;
}

} // namespace

std::vector<TunableKernel> listTunableKernels(ModuleOp module,
                                              const native::TargetInfo &target,
                                              size_t most) {
  std::vector<TunableKernel> found;
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!kernel->hasAttr("anabranch.kernel"))
      continue;
    OwningOpRef<func::FuncOp> copy = kernel.clone();
    (*copy)->removeAttr(BlockingParameters::attribute);
    if (failed(generalizeKernel(*copy)))
      continue;
    std::vector<Considered> considered = considerPlans(*copy, target);
    TunableKernel tunable{kernel.getSymName().str(), keyOf(kernel),
                          candidatesOf(considered)};
    if (tunable.candidates.size() > std::max<size_t>(most, 1))
      tunable.candidates.resize(std::max<size_t>(most, 1));
    if (tunable.candidates.size() > 1)
      found.push_back(std::move(tunable));
  }
  return found;
}

void setBlockings(ModuleOp module, const Blockings &blockings) {
  if (blockings.empty())
    return;
  for (auto kernel : module.getOps<func::FuncOp>()) {
    if (!kernel->hasAttr("anabranch.kernel"))
      continue;
    if (auto found = blockings.find(keyOf(kernel)); found != blockings.end())
      kernel->setAttr(BlockingParameters::attribute,
                      StringAttr::get(module.getContext(), found->second));
  }
}

} // namespace kernels
} // namespace anabranch
