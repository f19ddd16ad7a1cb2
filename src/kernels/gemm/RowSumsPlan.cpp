//===- RowSumsPlan.cpp - the plan of sums of rows -------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/contraction/TileSizes.h"
#include "kernels/contraction/VectorWords.h"
#include "kernels/emit/Memory.h"
#include "kernels/gemm/GemmEpilogue.h"
#include "kernels/gemm/ProductPlan.h"
#include "kernels/gemm/ProductPlans.h"
#include "kernels/gemm/RowSums.h"

using namespace mlir;
using llvm::divideCeilSigned;

namespace anabranch {
namespace kernels {
namespace {

/// Reading the right operand in the order of memory gains more than sums of so
/// many rows cost, which are not in registers. From memory it gains more than
/// from the second-level cache.
constexpr int64_t mostRows = 2, mostRowsFromMemory = 4;

/// Why the columns of the right operand cannot be read where they are.
std::optional<std::string> refuseOperand(const Contraction &contraction,
                                         const VectorWords &words) {
  const ContractionOperand &right = contraction.right;
  if (QuantizedOperand::find(contraction))
    return "its right operand is a weight of few bits";
  if (words.splitsPanels || words.readsPanels(contraction))
    return "its right operand is in panels";
  if (right.isWindow)
    return "its right operand is windows";
  if (right.unitLoop != contraction.column)
    return "columns of its right operand are no neighbours in memory";
  if (words.word.kPack != 1 || !right.isRegular ||
      !isLoadable(right.memory, contraction.element))
    return "its right operand is not read element by element";
  return std::nullopt;
}

std::optional<std::string> refusal(const Contraction &contraction,
                                   const native::TargetInfo &target,
                                   const VectorWords &words) {
  if (auto reason = refuseOperand(contraction, words))
    return reason;
  auto rows = contraction.rowsTogether(),
       columns = contraction.knownSize(contraction.column);
  if (!rows || !columns)
    return "its number of rows or columns is not known";
  if (contraction.isGrouped)
    return "its rows have right operands of their own";
  if (!isa<FloatType>(contraction.element))
    return "its sums are integers";
  if (*columns < words.lanes)
    return "its columns do not fill a vector";
  int64_t most =
      liesInMemory(contraction, target) ? mostRowsFromMemory : mostRows;
  if (*rows > most)
    return "it has " + std::to_string(*rows) + " rows; more than " +
           std::to_string(most) + " are cheaper in blocks";
  return std::nullopt;
}

/// The vectors of a row of a tile: as many as leave enough tiles, and whose
/// sums the first-level cache holds.
int64_t chooseVectors(const Contraction &contraction, const Tiling &tiling) {
  constexpr int64_t bytesOfSums = 16384, fewest = 4;
  // A processor's prefetch needs some lines of each row.
  constexpr int64_t fewTiles = 2, manyTiles = 4, columnsOfRow = 512;
  int64_t columns = *contraction.knownSize(contraction.column);
  int64_t batch = contraction.knownSize(contraction.batch).value_or(1);
  int64_t tiles = std::clamp(columns / columnsOfRow, fewTiles, manyTiles);
  tiles = divideCeilSigned(tiles, std::max<int64_t>(batch, 1));
  int64_t most = bytesOfSums / (tiling.lanes * tiling.rows *
                                elementBytes(contraction.element));
  int64_t vectors = divideCeilSigned(columns, tiles * tiling.lanes);
  return std::clamp(vectors, fewest, std::max(most, fewest));
}

ProductLayout layoutOf(const Contraction &contraction,
                       const native::TargetInfo &target,
                       const VectorWords &words) {
  ProductLayout layout;
  Tiling &tiling = layout.tiling;
  tiling.lanes = words.lanes;
  if (target.halvesVectors() && liesInMemory(contraction, target) &&
      elementBytes(contraction.right.memory) == 4)
    tiling.lanes /= 2;
  tiling.rows = std::max<int64_t>(*contraction.rowsTogether(), 1);
  tiling.vectors = chooseVectors(contraction, tiling);
  tiling.depth =
      chooseDepth(contraction, tiling, layout.word, /*copiesRight=*/false);
  tiling.rowsPerTile = chooseRowsPerTile(contraction, tiling);
  if (!readsLeftInPlace(contraction, layout.word))
    layout.left.form = LeftAccess::Form::Rows;
  layout.right.element = contraction.element;
  return layout;
}

class RowSumsPlan : public ProductPlan {
public:
  using ProductPlan::ProductPlan;

  std::vector<PlanCandidate> candidates() const override {
    if (!hasKnownSizes(contraction))
      return {};
    return {{"", cost()}};
  }

protected:
  int64_t scratchElements(const GemmContext &gemm) const override {
    return RowSums::sumElements(gemm);
  }

  void emitRows(GemmContext &gemm, ScratchMemory memory) const override {
    Value sums = memory.take(RowSums::sumElements(gemm));
    LeftOperand left(gemm, memory.rest());
    left.pack();
    RowSums(gemm, left).multiply(sums);
    GemmEpilogue(gemm).emit(gemm.tile.firstRow,
                            gemm.endOfBlock(gemm.tile.firstRow), sums);
  }
};

Proposal proposeRowSums(func::FuncOp kernel, const native::TargetInfo &target) {
  std::string why;
  std::optional<Contraction> contraction = findProduct(kernel, target, why);
  if (!contraction)
    return Proposal::refuse(why);
  VectorWords words = VectorWords::choose(*contraction, target);
  if (auto reason = refusal(*contraction, target, words))
    return Proposal::refuse(*reason);
  return {std::make_unique<RowSumsPlan>(*contraction, target,
                                        layoutOf(*contraction, target, words)),
          {}};
}

} // namespace

const PlanRow rowSumsRow{"row_sums", proposeRowSums};

} // namespace kernels
} // namespace anabranch
