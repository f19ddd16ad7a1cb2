//===- SplitBorders.cpp - results in pieces without padding ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/splitting/SplitBorders.h"

#include "analysis/PaddedTaps.h"
#include "kernels/emit/Destinations.h"
#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"
#include "mlir/Dialect/Utils/StructuredOpsUtils.h"
#include "llvm/ADT/SetVector.h"

#include <map>

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

/// A box of a tensor: where it begins and how long it is in each dimension.
struct Box {
  SmallVector<int64_t> offsets, sizes;
  bool operator<(const Box &other) const {
    return std::tie(offsets, sizes) < std::tie(other.offsets, other.sizes);
  }
};

/// Cuts a value and the elementwise operators before it. A part that several
/// values need is made once.
class BorderSplitter {
public:
  /// None if the value reads no padded tap.
  std::optional<analysis::Cuts> cutsOfReads(Value value);
  /// The value, from its pieces.
  Value join(OpBuilder &b, Value value, const analysis::Cuts &cuts);

private:
  std::map<std::pair<void *, Box>, Value> parts;

  static linalg::GenericOp elementwise(Value value);
  void addCutsOfReads(linalg::GenericOp op, analysis::Cuts &cuts);
  Value part(OpBuilder &b, Value value, const Box &box);
  Value partOfGeneric(OpBuilder &b, linalg::GenericOp op, const Box &box);
  Value partOfTap(OpBuilder &b, const analysis::PaddedTap &tap, Value operand,
                  const Box &box);
};

} // namespace

static Value emptyOf(OpBuilder &b, Value like, ArrayRef<int64_t> sizes) {
  return b.create<tensor::EmptyOp>(like.getLoc(), sizes,
                                   getElementTypeOrSelf(like.getType()));
}

static Value sliceOf(OpBuilder &b, Value tensor, ArrayRef<int64_t> offsets,
                     ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  MLIRContext *context = b.getContext();
  return b.create<tensor::ExtractSliceOp>(
      tensor.getLoc(), tensor, getAsIndexOpFoldResult(context, offsets),
      getAsIndexOpFoldResult(context, sizes),
      getAsIndexOpFoldResult(context, strides));
}

/// An elementwise operator whose parts are the same operator on parts of the
/// operands.
linalg::GenericOp BorderSplitter::elementwise(Value value) {
  auto op = value.getDefiningOp<linalg::GenericOp>();
  if (!op || op.hasIndexSemantics() || !analysis::cutsOf(op) ||
      op.payloadUsesValueFromOperand(op.getDpsInitOperand(0)))
    return nullptr;
  return op;
}

void BorderSplitter::addCutsOfReads(linalg::GenericOp op,
                                    analysis::Cuts &cuts) {
  analysis::addCuts(cuts, *analysis::cutsOf(op));
  for (OpOperand *input : op.getDpsInputOperands()) {
    linalg::GenericOp maker = elementwise(input->get());
    if (!maker)
      continue;
    analysis::Cuts before(maker.getNumLoops());
    addCutsOfReads(maker, before);
    AffineMap map = op.getMatchingIndexingMap(input);
    analysis::Cuts moved(cuts.size());
    for (auto [dim, loop] : llvm::enumerate(before))
      moved[map.getDimPosition(dim)] = loop;
    analysis::addCuts(cuts, moved);
  }
}

std::optional<analysis::Cuts> BorderSplitter::cutsOfReads(Value value) {
  linalg::GenericOp op = elementwise(value);
  if (!op)
    return std::nullopt;
  analysis::Cuts cuts(op.getNumLoops());
  addCutsOfReads(op, cuts);
  if (analysis::pieceCount(cuts) <= 1)
    return std::nullopt;
  return cuts;
}

/// The tap of a box that lies inside the padded tensor's source, or outside of
/// it.
Value BorderSplitter::partOfTap(OpBuilder &b, const analysis::PaddedTap &tap,
                                Value operand, const Box &box) {
  tensor::ExtractSliceOp slice = tap.slice;
  tensor::InsertSliceOp padded = tap.padding.insert;
  linalg::FillOp fill = tap.padding.fill;
  SmallVector<int64_t> offsets(slice.getStaticOffsets());
  SmallVector<int64_t> strides(slice.getStaticStrides());
  SmallVector<int64_t> sizes(offsets.size(), 1);
  for (auto [number, dim] : llvm::enumerate(tap.dims)) {
    if (dim < 0)
      continue;
    offsets[dim] += box.offsets[number] * strides[dim];
    sizes[dim] = box.sizes[number];
  }
  bool inside = true, outside = false;
  for (size_t dim = 0; dim < offsets.size(); ++dim) {
    int64_t low = padded.getStaticOffset(dim);
    int64_t high = low + padded.getStaticSize(dim);
    int64_t first = offsets[dim];
    int64_t last = first + (sizes[dim] - 1) * strides[dim];
    inside &= low <= first && last < high;
    outside |= last < low || first >= high;
    offsets[dim] -= low;
  }
  if (outside)
    return b
        .create<linalg::FillOp>(operand.getLoc(), fill.getInputs(),
                                emptyOf(b, operand, box.sizes))
        .getResult(0);
  if (!inside)
    return Value();
  Value part = sliceOf(b, padded.getSource(), offsets, sizes, strides);
  auto type =
      RankedTensorType::get(box.sizes, getElementTypeOrSelf(operand.getType()));
  if (part.getType() == type)
    return part;
  auto groups = getReassociationIndicesForCollapse(sizes, type.getShape());
  if (!groups)
    return Value();
  return b.create<tensor::CollapseShapeOp>(operand.getLoc(), type, part,
                                           *groups);
}

Value BorderSplitter::partOfGeneric(OpBuilder &b, linalg::GenericOp op,
                                    const Box &box) {
  SmallVector<Value> operands;
  for (OpOperand *input : op.getDpsInputOperands()) {
    if (!isa<RankedTensorType>(input->get().getType())) {
      operands.push_back(input->get());
      continue;
    }
    Box read;
    for (AffineExpr expr : op.getMatchingIndexingMap(input).getResults()) {
      unsigned loop = cast<AffineDimExpr>(expr).getPosition();
      read.offsets.push_back(box.offsets[loop]);
      read.sizes.push_back(box.sizes[loop]);
    }
    operands.push_back(part(b, input->get(), read));
  }
  Value init = emptyOf(b, op.getResult(0), box.sizes);
  operands.push_back(init);
  return mlir::clone(b, op, init.getType(), operands)->getResult(0);
}

Value BorderSplitter::part(OpBuilder &b, Value value, const Box &box) {
  auto [found, isNew] =
      parts.try_emplace({value.getAsOpaquePointer(), box}, Value());
  if (!isNew)
    return found->second;
  Value made;
  if (linalg::GenericOp op = elementwise(value))
    made = partOfGeneric(b, op, box);
  else if (auto tap = analysis::paddedTapOf(value))
    made = partOfTap(b, *tap, value, box);
  if (!made)
    made = sliceOf(b, value, box.offsets, box.sizes,
                   SmallVector<int64_t>(box.sizes.size(), 1));
  return parts[{value.getAsOpaquePointer(), box}] = made;
}

Value BorderSplitter::join(OpBuilder &b, Value value,
                           const analysis::Cuts &cuts) {
  MLIRContext *context = b.getContext();
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  Value whole = emptyOf(b, value, shape);
  for (int64_t number = 0, e = analysis::pieceCount(cuts); number < e;
       ++number) {
    Box box{SmallVector<int64_t>(cuts.size()),
            SmallVector<int64_t>(cuts.size())};
    int64_t rest = number;
    for (size_t dim = cuts.size(); dim-- > 0;) {
      int64_t along = static_cast<int64_t>(cuts[dim].size()) - 1;
      int64_t index = rest % along;
      rest /= along;
      box.offsets[dim] = cuts[dim][index];
      box.sizes[dim] = cuts[dim][index + 1] - cuts[dim][index];
    }
    whole = b.create<tensor::InsertSliceOp>(
        value.getLoc(), part(b, value, box), whole,
        getAsIndexOpFoldResult(context, box.offsets),
        getAsIndexOpFoldResult(context, box.sizes),
        SmallVector<OpFoldResult>(cuts.size(), b.getIndexAttr(1)));
  }
  return whole;
}

/// The written values that read padded taps, in the order of the kernel.
static SmallVector<Value> writtenValues(func::FuncOp source) {
  llvm::SmallSetVector<Value, 4> values;
  for (unsigned result = 0; result < source.getNumResults(); ++result)
    for (const Written &written : findWritten(source, result))
      if (written.value.getDefiningOp())
        values.insert(written.value);
  SmallVector<Value> sorted = values.takeVector();
  llvm::sort(sorted, [](Value a, Value b) {
    return a.getDefiningOp()->isBeforeInBlock(b.getDefiningOp());
  });
  return sorted;
}

void splitBorders(func::FuncOp source) {
  BorderSplitter splitter;
  SmallVector<std::pair<Value, Value>> joined;
  for (Value value : writtenValues(source)) {
    auto cuts = splitter.cutsOfReads(value);
    if (!cuts)
      continue;
    OpBuilder b(value.getContext());
    b.setInsertionPointAfterValue(value);
    joined.emplace_back(value, splitter.join(b, value, *cuts));
  }
  for (auto [value, pieces] : joined)
    value.replaceAllUsesWith(pieces);
}

} // namespace kernels
} // namespace anabranch
