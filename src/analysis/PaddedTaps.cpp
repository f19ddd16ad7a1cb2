//===- PaddedTaps.cpp - reads of a padded tensor's windows ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "analysis/PaddedTaps.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace analysis {

/// Two dimensions whose windows begin and end in the padding have nine pieces.
/// More would make a long kernel.
static constexpr int64_t maxPieces = 9;

template <typename SliceOp> static bool isStatic(SliceOp op) {
  auto known = [](ArrayRef<int64_t> values) {
    return llvm::none_of(values, ShapedType::isDynamic);
  };
  return known(op.getStaticOffsets()) && known(op.getStaticSizes()) &&
         known(op.getStaticStrides());
}

std::optional<Padding> paddingOf(Value value) {
  auto insert = value.getDefiningOp<tensor::InsertSliceOp>();
  if (!insert || insert.getDestType().getRank() == 0 || !isStatic(insert) ||
      !insert.getDestType().hasStaticShape() || insert.getDroppedDims().any() ||
      llvm::any_of(insert.getStaticStrides(),
                   [](int64_t stride) { return stride != 1; }))
    return std::nullopt;
  auto fill = insert.getDest().getDefiningOp<linalg::FillOp>();
  if (!fill)
    return std::nullopt;
  return Padding{insert, fill};
}

//===----------------------------------------------------------------------===//
// Taps
//===----------------------------------------------------------------------===//

/// The dimension of the source behind each dimension of the result, if the
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

std::optional<PaddedTap> paddedTapBehind(Value operand) {
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
  if (!slice || !isStatic(slice))
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
    auto tap = paddedTapBehind(operand);
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
    auto tap = paddedTapBehind(input->get());
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

/// The operator that alone reads the padding's slices; null if there is none.
static linalg::GenericOp onlyReader(tensor::InsertSliceOp padding) {
  llvm::SmallPtrSet<Operation *, 1> readers;
  SmallVector<Operation *> views(padding->getUsers());
  while (!views.empty()) {
    Operation *view = views.pop_back_val();
    if (!isa<tensor::ExtractSliceOp, tensor::CollapseShapeOp>(view))
      return nullptr;
    for (Operation *user : view->getUsers()) {
      if (isa<tensor::CollapseShapeOp>(user))
        views.push_back(user);
      else
        readers.insert(user);
    }
  }
  if (readers.size() != 1)
    return nullptr;
  return dyn_cast<linalg::GenericOp>(*readers.begin());
}

bool isPaddingOfTaps(Operation *op) {
  auto padding = op && op->getNumResults() == 1 ? paddingOf(op->getResult(0))
                                                : std::nullopt;
  if (!padding)
    return false;
  tensor::InsertSliceOp insert = padding->insert;
  // Lanes run along the last dimension, which stays whole.
  if (insert.getSourceType().getShape().back() !=
      insert.getDestType().getShape().back())
    return false;
  linalg::GenericOp reader = onlyReader(insert);
  if (!reader)
    return false;
  bool areTaps = llvm::all_of(insert->getUsers(), [](Operation *user) {
    return isa<tensor::ExtractSliceOp>(user);
  });
  auto cuts = cutsOf(reader);
  return areTaps && cuts && pieceCount(*cuts) <= maxPieces;
}

} // namespace analysis
} // namespace anabranch
