//===- GemmKernel.cpp - the plan of products ------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/GemmKernel.h"

#include "kernels/gemm/GemmEmitter.h"
#include "kernels/gemm/GemmFootprint.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

class GemmPlan : public Plan {
public:
  GemmPlan(Contraction found, const native::TargetInfo &target)
      : contraction(std::move(found)), target(target) {}

  PlanCost cost() const override { return {PlanCost::Rank::General}; }

  LogicalResult prepare() override {
    BlockingParameters given;
    if (auto tuned = contraction.source->getAttrOfType<StringAttr>(
            BlockingParameters::attribute)) {
      auto parsed = BlockingParameters::parse(tuned.getValue());
      if (!parsed)
        return contraction.source->emitError("has no blocking '")
               << tuned << "'";
      given = *parsed;
    }
    blocking = GemmBlocking::choose(contraction, target, given);
    return success();
  }

  KernelShell::Grid grid(KernelFunction &function) const override {
    GemmContext gemm(contraction, blocking, function);
    return {gemm.tileCount(), GemmEmitter(gemm).scratchBytes()};
  }
  void emitTile(KernelShell::TileBody &body) const override {
    GemmContext gemm(contraction, blocking, body.function);
    GemmEmitter(gemm).emitTile(body.evaluator, body.scratch, body.tile);
  }
  void emitFootprint(KernelShell::FootprintBody &body) const override {
    GemmContext gemm(contraction, blocking, body.function);
    TileFootprint footprint(body.function);
    addGemmFootprint(gemm, footprint, body.tile);
    footprint.store(body.footprints);
  }

private:
  Contraction contraction;
  const native::TargetInfo &target;
  GemmBlocking blocking;
};

Proposal propose(func::FuncOp kernel, const native::TargetInfo &target) {
  std::string why;
  std::optional<Contraction> contraction = Contraction::find(kernel, why);
  if (!contraction)
    return Proposal::refuse(why);
  return {std::make_unique<GemmPlan>(std::move(*contraction), target), {}};
}

} // namespace

const PlanRow gemmRow{"contraction", propose};

} // namespace kernels
} // namespace anabranch
