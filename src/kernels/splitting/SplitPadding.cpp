//===- SplitPadding.cpp - padding written piece by piece ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/splitting/SplitPadding.h"

#include "analysis/Padding.h"
#include "kernels/emit/KernelFunction.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The padding of a returned value, if only reshapes stand between them.
static std::optional<analysis::Padding> paddingThroughViews(Value value) {
  while (value.hasOneUse()) {
    if (auto padding = analysis::paddingOf(value))
      return padding;
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return std::nullopt;
}

static Value insertAt(OpBuilder &b, Location loc, Value piece, Value into,
                      ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) {
  return b.create<tensor::InsertSliceOp>(
      loc, piece, into, getAsIndexOpFoldResult(b.getContext(), offsets),
      getAsIndexOpFoldResult(b.getContext(), sizes),
      SmallVector<OpFoldResult>(sizes.size(), b.getIndexAttr(1)));
}

static void split(tensor::InsertSliceOp insert, linalg::FillOp fill) {
  OpBuilder b(insert);
  Location loc = insert.getLoc();
  RankedTensorType type = insert.getDestType();
  SmallVector<int64_t> offsets(insert.getStaticOffsets());
  SmallVector<int64_t> sizes(insert.getStaticSizes());
  Value result =
      b.create<tensor::EmptyOp>(loc, type.getShape(), type.getElementType());
  result = insertAt(b, loc, insert.getSource(), result, offsets, sizes);
  // One slab before and one after the source in each dimension. It spans the
  // whole of later dimensions, and only the source's part of earlier ones.
  SmallVector<int64_t> slabOffsets(type.getRank(), 0);
  SmallVector<int64_t> slabSizes(type.getShape());
  auto addSlab = [&](int64_t dim, int64_t offset, int64_t size) {
    if (size == 0)
      return;
    slabOffsets[dim] = offset;
    slabSizes[dim] = size;
    Value empty =
        b.create<tensor::EmptyOp>(loc, slabSizes, type.getElementType());
    auto slab = b.create<linalg::FillOp>(loc, fill.getInputs(), empty);
    result =
        insertAt(b, loc, slab.getResult(0), result, slabOffsets, slabSizes);
  };
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    int64_t end = offsets[dim] + sizes[dim];
    addSlab(dim, 0, offsets[dim]);
    addSlab(dim, end, type.getDimSize(dim) - end);
    slabOffsets[dim] = offsets[dim];
    slabSizes[dim] = sizes[dim];
  }
  insert.getResult().replaceAllUsesWith(result);
  insert.erase();
}

void splitPadding(func::FuncOp source) {
  for (Value returned : llvm::to_vector(returnedValues(source)))
    if (auto padding = paddingThroughViews(returned))
      split(padding->insert, padding->fill);
}

} // namespace kernels
} // namespace anabranch
