//===- MatchWindows.cpp - finds windows of an image in an operand ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/ImageWindows.h"

#include "analysis/Padding.h"
#include "ir/Layout.h"
#include "kernels/contraction/Contraction.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

class Matcher {
public:
  explicit Matcher(const Contraction &contraction)
      : contraction(contraction), op(contraction.op),
        number(contraction.left.number) {}

  bool match();
  ImageWindows found;

private:
  const Contraction &contraction;
  linalg::GenericOp op;
  unsigned number;
  linalg::GenericOp view;

  Value matchTaps(Value value);
  bool isRun();
  bool matchImage(Value value);
  void describeAxes();
  std::optional<ImageWindows::Axis> axisOf(unsigned dim, unsigned dims);
  std::optional<int64_t> growth(unsigned result, unsigned loop) const;
};

/// Finds the view of windows, whose taps and channels form the depths.
Value Matcher::matchTaps(Value value) {
  auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
  if (!collapse)
    return value;
  SmallVector<ReassociationIndices> groups = collapse.getReassociationIndices();
  for (const ReassociationIndices &group : ArrayRef(groups).drop_back())
    if (group.size() != 1)
      return Value();
  ArrayRef<int64_t> inner =
      collapse.getSrcType().getShape().take_back(groups.back().size());
  if (llvm::any_of(inner, ShapedType::isDynamic))
    return Value();
  llvm::append_range(found.taps, inner.drop_back());
  return collapse.getSrc();
}

bool Matcher::match() {
  Value windows = matchTaps(op->getOperand(number));
  view = windows ? windows.getDefiningOp<linalg::GenericOp>()
                 : linalg::GenericOp();
  if (!view || !ir::isMarkedWindows(view))
    return false;
  AffineMap read = op.getIndexingMapsArray()[number];
  if (read.getResult(read.getNumResults() - 1) !=
      getAffineDimExpr(contraction.depth, op.getContext()))
    return false;
  found.run = cast<RankedTensorType>(windows.getType()).getShape().back();
  found.map = view.getMatchingIndexingMap(view.getDpsInputOperand(0));
  if (ShapedType::isDynamic(found.run) || found.run <= 0 || !isRun() ||
      !matchImage(view->getOperand(0)))
    return false;
  describeAxes();
  return true;
}

/// By how much an index grows with a loop; none if not by a constant.
std::optional<int64_t> Matcher::growth(unsigned result, unsigned loop) const {
  AffineExpr dim = getAffineDimExpr(loop, found.map.getContext());
  AffineExpr index = found.map.getResult(result);
  AffineExpr difference = simplifyAffineExpr(
      index.replace(dim, dim + 1) - index, found.map.getNumDims(), 0);
  if (auto constant = dyn_cast<AffineConstantExpr>(difference))
    return constant.getValue();
  return std::nullopt;
}

/// Whether the last loop moves along the last dimension alone.
bool Matcher::isRun() {
  unsigned last = found.map.getNumResults() - 1;
  unsigned loop = found.map.getNumDims() - 1;
  for (unsigned result = 0; result <= last; ++result)
    if (growth(result, loop) != (result == last ? 1 : 0))
      return false;
  return true;
}

/// Matches an argument, or a padded one.
bool Matcher::matchImage(Value value) {
  if (auto insert = value.getDefiningOp<tensor::InsertSliceOp>()) {
    auto fill = analysis::windowFill(insert.getDest());
    if (!fill || !insert.hasUnitStride() ||
        insert.getSourceType().getRank() != insert.getResultType().getRank())
      return false;
    found.padding = insert;
    found.fill = *fill;
    value = insert.getSource();
  }
  found.image = dyn_cast<BlockArgument>(value);
  if (!found.image)
    return false;
  auto strides =
      argumentStrides(contraction.source, found.image.getArgNumber());
  found.isContiguous = !strides;
  return !strides || strides.asArrayRef().back() == 1;
}

/// Describes the dimensions of the image. The view's loops are n, the points,
/// the group if there are several, the taps, c.
void Matcher::describeAxes() {
  unsigned rank = found.map.getNumResults(), dims = rank - 2;
  unsigned groups = contraction.batch.size();
  bool hasTaps = !found.taps.empty();
  AffineMap read = op.getIndexingMapsArray()[number];
  SmallVector<unsigned> order(contraction.rows);
  llvm::append_range(order, contraction.batch);
  order.push_back(contraction.depth);
  auto rowsAndDepth = AffineMap::getMultiDimMapWithTargets(
      op.getNumLoops(), order, op.getContext());
  auto loop = [&](unsigned number) {
    return getAffineDimExpr(number, op.getContext());
  };
  AffineExpr channel = loop(found.map.getNumDims() - 1);
  if (groups)
    channel = loop(1 + dims) * found.run + channel;
  if (rank < 3 || dims > 3 || groups > 1 || read != rowsAndDepth ||
      found.map.getNumDims() != 2 + groups + dims * (hasTaps ? 2 : 1) ||
      (hasTaps && found.taps.size() != dims) ||
      found.map.getResult(0) != loop(0) ||
      found.map.getResult(rank - 1) != channel)
    return;
  ImageWindows::Axes axes;
  ImageWindows::Axis *all[] = {&axes.slices, &axes.rows, &axes.columns};
  for (unsigned dim = 0; dim < dims; ++dim) {
    std::optional<ImageWindows::Axis> axis = axisOf(dim, dims);
    if (!axis)
      return;
    *all[dims < 3 ? dim + 1 : dim] = *axis;
  }
  found.axes = axes;
  if (groups)
    found.group = contraction.batch.front();
}

std::optional<ImageWindows::Axis> Matcher::axisOf(unsigned dim, unsigned dims) {
  ImageWindows::Axis axis;
  unsigned result = 1 + dim, point = 1 + dim;
  unsigned tap = 1 + dims + contraction.batch.size() + dim;
  axis.points =
      cast<RankedTensorType>(view.getResult(0).getType()).getDimSize(point);
  axis.size = cast<RankedTensorType>(found.image.getType()).getDimSize(result);
  AffineExpr expected = getAffineDimExpr(point, op.getContext()) *
                        growth(result, point).value_or(0);
  axis.stride = growth(result, point).value_or(0);
  if (!found.taps.empty()) {
    axis.taps = found.taps[dim];
    // A single tap has no distance to another.
    axis.dilation = std::max<int64_t>(growth(result, tap).value_or(0), 1);
    expected = expected + getAffineDimExpr(tap, op.getContext()) *
                              growth(result, tap).value_or(0);
  }
  if (found.padding) {
    auto low = getConstantIntValue(found.padding.getMixedOffsets()[result]);
    if (!low)
      return std::nullopt;
    axis.padding = *low;
  }
  AffineExpr rest = simplifyAffineExpr(found.map.getResult(result) - expected,
                                       found.map.getNumDims(), 0);
  if (rest != getAffineConstantExpr(0, op.getContext()) || axis.stride < 1 ||
      ShapedType::isDynamic(axis.points) || ShapedType::isDynamic(axis.size))
    return std::nullopt;
  return axis;
}

} // namespace

std::optional<ImageWindows> ImageWindows::of(const Contraction &contraction) {
  Matcher matcher(contraction);
  if (!matcher.match())
    return std::nullopt;
  return matcher.found;
}

} // namespace kernels
} // namespace anabranch
