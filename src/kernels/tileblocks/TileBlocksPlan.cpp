//===- TileBlocksPlan.cpp - the plan of blocks in tile registers ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/tileblocks/TileBlocksPlan.h"

#include "kernels/contraction/LayoutCandidates.h"
#include "kernels/gemm/ProductPlan.h"
#include "kernels/tileblocks/TileBlocking.h"
#include "kernels/tileblocks/TileBlocksEmitter.h"

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

class TileBlocksPlan : public ProductPlan {
public:
  TileBlocksPlan(const Contraction &contraction,
                 const native::TargetInfo &target, const TileBlocking &blocking)
      : ProductPlan(contraction, target, blocking.layout),
        fetch{blocking.linesAhead, blocking.bytesAhead},
        cyclesOfParts(blocking.cycles) {}

  double cost() const override {
    return cyclesOfParts ? *cyclesOfParts : ProductPlan::cost();
  }
  std::vector<PlanCandidate> candidates() const override;

protected:
  int64_t scratchElements(const GemmContext &gemm) const override {
    return TileBlocksEmitter::sumElements(gemm) +
           RightPanels::scratchElements(gemm) +
           TileBlocksEmitter::leftTailElements(gemm) +
           TileBlocksEmitter::rightTailElements(gemm);
  }

  void emitRows(GemmContext &gemm, ScratchMemory memory) const override {
    TileBlocksEmitter::Scratch parts;
    parts.sums = memory.take(TileBlocksEmitter::sumElements(gemm));
    RightPanels right(gemm, memory.take(RightPanels::scratchElements(gemm)));
    parts.leftTail = memory.take(TileBlocksEmitter::leftTailElements(gemm));
    parts.rightTail = memory.take(TileBlocksEmitter::rightTailElements(gemm));
    LeftOperand left(gemm, memory.rest());
    left.pack();
    TileBlocksEmitter(gemm, left, right, fetch).emit(parts);
  }

  double shareOf(const Tiling &tiling) const override {
    return shareOfRounding(contraction, tiling);
  }

private:
  TileBlocksEmitter::Fetch fetch;
  std::optional<double> cyclesOfParts;
};

std::vector<PlanCandidate> TileBlocksPlan::candidates() const {
  if (!hasKnownSizes(contraction))
    return {};
  LayoutCandidates found;
  std::string why;
  found.addAround(TileBlocking::choose(contraction, target, why)->layout.tiling,
                  {});
  return found.distinct([&](const BlockingParameters &given) {
    auto chosen = TileBlocking::choose(contraction, target, why, given);
    return LayoutCandidates::Found{chosen->layout.tiling, chosen->bytesAhead,
                                   cyclesOf(chosen->layout)};
  });
}

Proposal propose(func::FuncOp kernel, const native::TargetInfo &target) {
  std::string why;
  std::optional<Contraction> contraction = findProduct(kernel, target, why);
  if (!contraction)
    return Proposal::refuse(why);
  auto given = BlockingParameters::of(kernel, tileBlocksRow.name);
  auto blocking = TileBlocking::choose(*contraction, target, why, given);
  if (!blocking)
    return Proposal::refuse(why);
  return {std::make_unique<TileBlocksPlan>(*contraction, target, *blocking),
          {}};
}

} // namespace

const PlanRow tileBlocksRow{"tile_blocks", propose};

} // namespace kernels
} // namespace anabranch
