//===- RowDotsPlan.cpp - the plan of dot products of few rows -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/contraction/TileSizes.h"
#include "kernels/contraction/VectorWords.h"
#include "kernels/gemm/GemmEpilogue.h"
#include "kernels/gemm/ProductPlan.h"
#include "kernels/gemm/ProductPlans.h"
#include "kernels/gemm/RowDots.h"

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

/// Up to this many rows of a group, dot products of some rows at a time cost
/// less than a copy of the right operand; and how many rows at a time.
constexpr int64_t rowsOfGroup = 16, rowsOfGroupDots = 4;

std::optional<std::string> refusal(const Contraction &contraction,
                                   const VectorWords &words) {
  auto rows = contraction.rowsTogether();
  int64_t most = contraction.isGrouped ? rowsOfGroup : fewRows;
  if (QuantizedOperand::find(contraction))
    return "its right operand is a weight of few bits";
  if (words.splitsPanels || words.readsPanels(contraction))
    return "its right operand is in panels";
  if (contraction.right.isWindow)
    return "its right operand is windows";
  if (contraction.right.unitLoop != contraction.depth)
    return "depths of its right operand are no neighbours in memory";
  if (!rows)
    return "its number of rows is not known";
  if (*rows > most)
    return "it has " + std::to_string(*rows) + " rows; more than " +
           std::to_string(most) + " are cheaper in blocks";
  return std::nullopt;
}

ProductLayout layoutOf(const Contraction &contraction,
                       const native::TargetInfo &target,
                       const VectorWords &words,
                       const BlockingParameters &given) {
  ProductLayout layout;
  layout.word = words.word;
  Tiling &tiling = layout.tiling;
  tiling.lanes = words.lanes;
  int64_t rows = *contraction.rowsTogether();
  int64_t most = contraction.isGrouped ? rowsOfGroupDots : rows;
  tiling.rows = std::clamp<int64_t>(rows, 1, std::max<int64_t>(most, 1));
  tiling.vectors = target.isa().vectorRegisters() > 16 ? 4 : 2;
  tiling.depth = chooseDepth(contraction, tiling, words.word,
                             /*copiesRight=*/false);
  tiling.rowsPerTile = chooseRowsPerTile(contraction, tiling);
  fitRows(contraction, given, tiling);
  if (!readsLeftInPlace(contraction, words.word))
    layout.left.form = LeftAccess::Form::Rows;
  layout.right.element = contraction.element;
  return layout;
}

class RowDotsPlan : public ProductPlan {
public:
  RowDotsPlan(const Contraction &contraction, const native::TargetInfo &target,
              const ProductLayout &layout, int64_t bytesAhead)
      : ProductPlan(contraction, target, layout), bytesAhead(bytesAhead) {}

  std::vector<PlanCandidate> candidates() const override {
    if (!hasKnownSizes(contraction))
      return {};
    BlockingParameters other;
    other.bytesAhead = bytesAhead ? 0 : usualDistance;
    return {{"", cost()}, {other.text(), cost()}};
  }

protected:
  int64_t scratchElements(const GemmContext &gemm) const override {
    return layout.tiling.blockElements() + Compensation::scratchElements(gemm);
  }

  void emitRows(GemmContext &gemm, ScratchMemory memory) const override {
    Value sums = memory.take(layout.tiling.blockElements());
    Value numbers = memory.take(Compensation::scratchElements(gemm));
    LeftOperand left(gemm, memory.rest());
    Compensation compensation(gemm, left, numbers);
    left.pack();
    compensation.compute();
    RowDots(gemm, left, compensation, /*fetchesAhead=*/bytesAhead > 0)
        .multiply(sums);
    GemmEpilogue(gemm).emit(gemm.tile.firstRow,
                            gemm.endOfBlock(gemm.tile.firstRow), sums);
  }

  int64_t mostRowsOfGroup() const override { return layout.tiling.rows; }

private:
  /// How many bytes ahead of its use the right operand is fetched; 0: never.
  int64_t bytesAhead;
};

Proposal proposeRowDots(func::FuncOp kernel, const native::TargetInfo &target) {
  std::string why;
  std::optional<Contraction> contraction = findProduct(kernel, target, why);
  if (!contraction)
    return Proposal::refuse(why);
  VectorWords words = VectorWords::choose(*contraction, target);
  if (auto reason = refusal(*contraction, words))
    return Proposal::refuse(*reason);
  auto given = BlockingParameters::of(kernel, rowDotsRow.name);
  return {std::make_unique<RowDotsPlan>(
              *contraction, target,
              layoutOf(*contraction, target, words, given),
              fitBytesAhead(given, chooseBytesAhead(*contraction, target))),
          {}};
}

} // namespace

const PlanRow rowDotsRow{"row_dots", proposeRowDots};

} // namespace kernels
} // namespace anabranch
