//===- VectorBlocksPlan.cpp - the plan of blocks in vector registers ------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/BlockShapes.h"
#include "kernels/contraction/LayoutCandidates.h"
#include "kernels/contraction/VectorBlocking.h"
#include "kernels/gemm/BlockLoops.h"
#include "kernels/gemm/ProductPlan.h"
#include "kernels/gemm/ProductPlans.h"

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

/// So many block shapes are combined with other parts.
constexpr size_t shapesToTry = 4;
constexpr int64_t distancesAhead[] = {0, 2048, 4096, 8192};

class VectorBlocksPlan : public ProductPlan {
public:
  VectorBlocksPlan(const Contraction &contraction,
                   const native::TargetInfo &target,
                   const VectorBlocking &blocking)
      : ProductPlan(contraction, target, blocking.layout),
        bytesAhead(blocking.bytesAhead) {}

  std::vector<PlanCandidate> candidates() const override;

protected:
  int64_t scratchElements(const GemmContext &gemm) const override {
    return BlockLoops::scratchElements(gemm);
  }
  void emitRows(GemmContext &gemm, ScratchMemory memory) const override {
    BlockLoops(gemm, bytesAhead).emit(memory);
  }

  double shareOf(const Tiling &tiling) const override {
    return shareOfBlocks(contraction, target, tiling);
  }

private:
  int64_t bytesAhead;
};

std::vector<PlanCandidate> VectorBlocksPlan::candidates() const {
  if (!hasKnownSizes(contraction))
    return {};
  LayoutCandidates found;
  auto add = [&](const BlockingParameters &block) {
    auto chosen = VectorBlocking::choose(contraction, target, block);
    found.addAround(chosen.layout.tiling, block, distancesAhead);
  };
  add({});
  std::vector<BlockShape> shapes = blockShapes(contraction, target);
  shapes.resize(std::min(shapes.size(), shapesToTry));
  for (const BlockShape &shape : shapes) {
    BlockingParameters block;
    block.rows = shape.rows;
    block.vectors = shape.vectors;
    add(block);
  }
  return found.distinct([&](const BlockingParameters &given) {
    auto chosen = VectorBlocking::choose(contraction, target, given);
    return LayoutCandidates::Found{chosen.layout.tiling, chosen.bytesAhead,
                                   cyclesOf(chosen.layout)};
  });
}

/// The two rows share all but the instruction, which the layout of the right
/// operand decides.
Proposal propose(func::FuncOp kernel, const native::TargetInfo &target,
                 bool wantsMatrices) {
  std::string why;
  std::optional<Contraction> contraction = findProduct(kernel, target, why);
  if (!contraction)
    return Proposal::refuse(why);
  bool isMatrix =
      VectorWords::choose(*contraction, target).word.product.isMatrix;
  if (wantsMatrices && !isMatrix)
    return Proposal::refuse(
        "its right operand is in no panels of matrix instructions");
  if (isMatrix && !wantsMatrices)
    return Proposal::refuse(
        "its right operand is in panels of matrix instructions");
  auto given = BlockingParameters::of(
      kernel, wantsMatrices ? matrixBlocksRow.name : vectorBlocksRow.name);
  return {std::make_unique<VectorBlocksPlan>(
              *contraction, target,
              VectorBlocking::choose(*contraction, target, given)),
          {}};
}

Proposal proposeMatrices(func::FuncOp kernel,
                         const native::TargetInfo &target) {
  return propose(kernel, target, /*wantsMatrices=*/true);
}

Proposal proposeVectors(func::FuncOp kernel, const native::TargetInfo &target) {
  return propose(kernel, target, /*wantsMatrices=*/false);
}

} // namespace

const PlanRow matrixBlocksRow{"matrix_blocks", proposeMatrices};
const PlanRow vectorBlocksRow{"vector_blocks", proposeVectors};

} // namespace kernels
} // namespace anabranch
