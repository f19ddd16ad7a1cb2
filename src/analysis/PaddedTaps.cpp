//===- PaddedTaps.cpp - reads of a padded tensor's windows ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "analysis/PaddedTaps.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace analysis {

/// Two dimensions whose windows begin and end in the padding have nine pieces.
/// More would make a long kernel.
static constexpr int64_t maxPieces = 9;

//===----------------------------------------------------------------------===//
// Taps
//===----------------------------------------------------------------------===//

/// The dimension of the source for each dimension of the result, if the
/// reshape drops dimensions of one element only.
static std::optional<SmallVector<int64_t>>
keptDims(tensor::CollapseShapeOp collapse) {
  SmallVector<int64_t> dims;
  for (const ReassociationIndices &group : collapse.getReassociationIndices()) {
    int64_t kept = -1;
    for (int64_t dim : group) {
      if (collapse.getSrcType().getDimSize(dim) == 1)
        continue;
      if (kept >= 0)
        return std::nullopt;
      kept = dim;
    }
    dims.push_back(kept);
  }
  return dims;
}

std::optional<PaddedTap> paddedTapOf(Value operand) {
  auto type = dyn_cast<RankedTensorType>(operand.getType());
  if (!type || !type.hasStaticShape())
    return std::nullopt;
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
  while (auto collapse = operand.getDefiningOp<tensor::CollapseShapeOp>()) {
    auto kept = keptDims(collapse);
    if (!kept)
      return std::nullopt;
    for (int64_t &dim : dims)
      dim = dim < 0 ? dim : (*kept)[dim];
    operand = collapse.getSrc();
  }
  auto slice = operand.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || !hasStaticPlace(slice))
    return std::nullopt;
  auto padding = paddingOf(slice.getSource());
  if (!padding)
    return std::nullopt;
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  SmallVector<int64_t> sliced;
  for (int64_t dim = 0; dim < slice.getSourceType().getRank(); ++dim)
    if (!dropped.test(dim))
      sliced.push_back(dim);
  for (int64_t &dim : dims)
    dim = dim < 0 ? dim : sliced[dim];
  return PaddedTap{*padding, slice, dims};
}

bool readsPaddedTaps(Operation *op) {
  return llvm::any_of(op->getOperands(), [](Value operand) {
    auto tap = paddedTapOf(operand);
    return tap && isPaddingOfTaps(tap->padding.insert);
  });
}

//===----------------------------------------------------------------------===//
// Cuts
//===----------------------------------------------------------------------===//

static bool isElementwise(linalg::GenericOp op) {
  return op.getNumReductionLoops() == 0 && op.getNumResults() == 1 &&
         op.getMatchingIndexingMap(op.getDpsInitOperand(0)).isIdentity() &&
         llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) {
           return map.isProjectedPermutation();
         });
}

/// The points of a loop at which the tap enters and leaves the source.
static void addBorders(SmallVectorImpl<int64_t> &cuts, const PaddedTap &tap,
                       int64_t dim) {
  tensor::InsertSliceOp insert = tap.padding.insert;
  tensor::ExtractSliceOp slice = tap.slice;
  int64_t low = insert.getStaticOffset(dim);
  int64_t high = low + insert.getStaticSize(dim);
  int64_t offset = slice.getStaticOffset(dim);
  int64_t stride = slice.getStaticStride(dim);
  for (int64_t border : {low, high}) {
    int64_t point = llvm::divideCeilSigned(border - offset, stride);
    if (point > 0 && point < slice.getStaticSize(dim))
      cuts.push_back(point);
  }
}

static void normalize(SmallVectorImpl<int64_t> &cuts) {
  llvm::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
}

std::optional<Cuts> cutsOf(linalg::GenericOp op) {
  SmallVector<int64_t> sizes = op.getStaticLoopRanges();
  if (!isElementwise(op) || llvm::any_of(sizes, ShapedType::isDynamic))
    return std::nullopt;
  Cuts cuts;
  for (int64_t size : sizes)
    cuts.push_back({0, size});
  for (OpOperand *input : op.getDpsInputOperands()) {
    auto tap = paddedTapOf(input->get());
    if (!tap)
      continue;
    AffineMap map = op.getMatchingIndexingMap(input);
    for (auto [number, dim] : llvm::enumerate(tap->dims))
      if (dim >= 0)
        addBorders(cuts[map.getDimPosition(number)], *tap, dim);
  }
  for (SmallVector<int64_t> &loop : cuts)
    normalize(loop);
  return cuts;
}

void addCuts(Cuts &cuts, const Cuts &more) {
  for (auto [loop, added] : llvm::zip_equal(cuts, more)) {
    llvm::append_range(loop, added);
    normalize(loop);
  }
}

int64_t pieceCount(const Cuts &cuts) {
  int64_t count = 1;
  for (const SmallVector<int64_t> &loop : cuts)
    count *= static_cast<int64_t>(loop.size()) - 1;
  return count;
}

/// The operator that alone reads the padding, through slices; null if there is
/// none.
static linalg::GenericOp onlyReader(tensor::InsertSliceOp padding) {
  SmallVector<Operation *> views(padding->getUsers());
  if (!llvm::all_of(views, llvm::IsaPred<tensor::ExtractSliceOp>))
    return nullptr;
  llvm::SmallPtrSet<Operation *, 1> readers;
  while (!views.empty())
    for (Operation *user : views.pop_back_val()->getUsers()) {
      if (isa<tensor::CollapseShapeOp>(user))
        views.push_back(user);
      else
        readers.insert(user);
    }
  return readers.size() == 1 ? dyn_cast<linalg::GenericOp>(*readers.begin())
                             : nullptr;
}

bool isPaddingOfTaps(Operation *op) {
  auto insert = dyn_cast_or_null<tensor::InsertSliceOp>(op);
  if (!insert || !paddingOf(insert))
    return false;
  // Lanes run along the last dimension, which stays whole.
  if (insert.getSourceType().getShape().back() !=
      insert.getDestType().getShape().back())
    return false;
  linalg::GenericOp reader = onlyReader(insert);
  auto cuts = reader ? cutsOf(reader) : std::nullopt;
  return cuts && pieceCount(*cuts) <= maxPieces;
}

} // namespace analysis
} // namespace anabranch
