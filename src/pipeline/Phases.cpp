//===- Phases.cpp - the stages of a compilation ---------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// The one readable list of passes.

#include "pipeline/Phases.h"

#include "import/passes/Passes.h"
#include "kernels/Panels.h"
#include "kernels/attention/AttentionKernel.h"
#include "kernels/quantized/QuantizedBlocking.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "schedule/Passes.h"

using namespace mlir;

namespace anabranch {
namespace pipeline {

static constexpr PhaseInfo phases[] = {
    {Phase::Import, "import", "graph description to anabranch.aten calls"},
    {Phase::Lower, "lower", "calls to linalg on tensors"},
    {Phase::Fuse, "fuse", "operators to dispatches, one per kernel"},
    {Phase::Schedule, "schedule", "dispatches to kernels and command lists"},
    {Phase::Memory, "memory", "offsets of buffers in the arena"},
    {Phase::Codegen, "codegen", "kernels to machine code"},
    {Phase::Package, "package", "program, kernels and constants to a folder"},
};

ArrayRef<PhaseInfo> allPhases() { return phases; }

std::optional<Phase> findPhase(StringRef name) {
  for (const PhaseInfo &info : phases)
    if (info.name == name)
      return info.phase;
  return std::nullopt;
}

const PhaseInfo &infoOf(Phase phase) {
  return phases[static_cast<size_t>(phase)];
}

/// The panels that the contraction kernel reads for a product, if any.
static std::optional<PanelLayout> choosePanels(linalg::GenericOp op,
                                               const native::TargetInfo &target,
                                               kernels::PanelsFor purpose) {
  std::string why;
  auto contraction = kernels::Contraction::match(op, why);
  if (!contraction)
    return std::nullopt;
  auto panels = kernels::choosePanels(*contraction, target, purpose);
  if (!panels)
    return std::nullopt;
  return PanelLayout{
      contraction->right.number, contraction->batch, contraction->column,
      contraction->depth,        panels->width,      panels->kPack};
}

/// The weight of a product that the kernel for quantised weights reads in few
/// bits, if any.
static std::optional<WeightRole> chooseWeight(linalg::GenericOp op,
                                              const native::TargetInfo &target,
                                              bool roundsLeft) {
  std::string why;
  auto contraction = kernels::Contraction::match(op, why);
  if (!contraction || !kernels::wantsQuantizedWeight(*contraction, target))
    return std::nullopt;
  return WeightRole{contraction->right.number, contraction->column,
                    contraction->depth, roundsLeft,
                    kernels::wantsPairsOfColumns(target)};
}

void addProofPasses(OpPassManager &module) {
  OpPassManager &functions = module.nest<func::FuncOp>();
  functions.addPass(createLowerFencesPass());
  functions.addPass(createNormalizeAtenPass());
  functions.addPass(createCSEPass());
  functions.addPass(createLowerAtenPass());
  functions.addPass(createCSEPass());
}

void addPasses(OpPassManager &module, Phase phase,
               const native::TargetInfo &target, const StreamOptions &streams,
               const ProductOptions &products) {
  OpPassManager &functions = module.nest<func::FuncOp>();
  switch (phase) {
  case Phase::Lower:
    functions.addPass(createLowerFencesPass());
    functions.addPass(createNormalizeAtenPass());
    // Each call is still one operation, so CSE finds equal calls.
    functions.addPass(createCSEPass());
    functions.addPass(createFoldBatchNormPass());
    functions.addPass(createMultiplyIntegersPass(
        target.isa().has(native::Multiply::DotInt8)));
    functions.addPass(createLowerAtenPass());
    // Attention that the attention kernel refuses becomes contractions and a
    // softmax.
    functions.addPass(createDecomposeAttentionPass(
        [](ir::AttentionOp op) { return !kernels::refuseAttention(op); }));
    functions.addPass(createCSEPass());
    functions.addPass(createComposeUpdatesPass());
    functions.addPass(createCSEPass());
    functions.addPass(createVerifyLinalgPass());
    return;
  case Phase::Fuse:
    // SinkChannels knows the views around convolutions by their marks. It runs
    // first, since other passes rewrite these views.
    functions.addPass(createSinkChannelsPass());
    functions.addPass(createCSEPass());
    functions.addPass(createCollapseReshapesPass());
    functions.addPass(createSplitReductionsPass());
    functions.addPass(createCSEPass());
    // The loops of products have their final shape, and nothing is fused yet.
    functions.addPass(createPackQuantizedPass(
        [&target, rounds = products.roundsLeft](linalg::GenericOp op) {
          return chooseWeight(op, target, rounds);
        }));
    functions.addPass(createPackConstantsPass(
        [&target, panels = products.panels](linalg::GenericOp op) {
          return choosePanels(op, target, panels);
        }));
    functions.addPass(createNumberFencesPass());
    functions.addPass(createFormDispatchesPass());
    // CSE merges equal computations of the dispatches' sizes.
    functions.addPass(createCSEPass());
    functions.addPass(createVerifyDispatchesPass());
    return;
  case Phase::Schedule:
    module.addPass(createBuildProgramPass());
    // Every command is still on the stream that the user gave it.
    module.addPass(createKeepFencesPass());
    module.addPass(createJoinStreamsPass());
    if (streams.find)
      module.addPass(createAssignStreamsPass(streams.machine));
    // If the compiler moved commands to other streams, it keeps their order
    // itself: no unordered write is the user's error.
    module.addPass(
        createInsertEventsPass(streams.repairHazards || streams.find));
    module.addPass(createFormSupersPass(streams.supers, streams.machine));
    return;
  case Phase::Memory:
    module.addPass(createPlanMemoryPass());
    module.addPass(createVerifyProgramPass());
    return;
  case Phase::Import:
  case Phase::Codegen:
  case Phase::Package:
    return;
  }
}

} // namespace pipeline
} // namespace anabranch
