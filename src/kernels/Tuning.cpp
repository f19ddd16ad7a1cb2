//===- Tuning.cpp - blockings of kernels that were timed ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/Tuning.h"

#include "kernels/EmitKernel.h"
#include "kernels/Plans.h"
#include "kernels/gemm/GemmKernel.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/raw_ostream.h"

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

/// The product of a kernel, in terms of `copy`; none if another plan makes the
/// kernel. `copy` is changed.
std::optional<Contraction> productOf(func::FuncOp copy,
                                     const native::TargetInfo &target) {
  if (failed(generalizeKernel(copy)))
    return std::nullopt;
  std::vector<Considered> considered = considerPlans(copy, target);
  Considered *chosen = cheapestOf(considered);
  if (!chosen || chosen->row->name != gemmRow.name)
    return std::nullopt;
  std::string why;
  return Contraction::find(copy, why);
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
    std::optional<Contraction> product = productOf(*copy, target);
    if (!product)
      continue;
    TunableKernel tunable{kernel.getSymName().str(), keyOf(kernel),
                          listBlockings(*product, target, most)};
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
