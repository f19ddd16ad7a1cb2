//===- Destinations.cpp - where results are written -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/emit/Destinations.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

std::optional<SmallVector<int64_t>> permutationOf(Operation *op) {
  auto generic = dyn_cast_or_null<linalg::GenericOp>(op);
  if (!generic || generic.getNumDpsInputs() != 1 ||
      generic.getNumResults() != 1 || generic.getNumReductionLoops() != 0)
    return std::nullopt;
  Block &body = generic.getRegion().front();
  if (body.getTerminator()->getOperand(0) != body.getArgument(0))
    return std::nullopt;
  AffineMap input = generic.getIndexingMapsArray()[0];
  AffineMap output = generic.getIndexingMapsArray()[1];
  if (!input.isPermutation() || !output.isPermutation())
    return std::nullopt;
  SmallVector<int64_t> permutation;
  for (AffineExpr expr : output.getResults())
    permutation.push_back(*input.getResultPosition(expr));
  return permutation;
}

//===----------------------------------------------------------------------===//
// Finding what is written
//===----------------------------------------------------------------------===//

/// Whether the two insertions are known to touch no common element.
static bool isDisjoint(tensor::InsertSliceOp a, tensor::InsertSliceOp b) {
  for (size_t i = 0; i < a.getMixedOffsets().size(); ++i) {
    auto offsetA = getConstantIntValue(a.getMixedOffsets()[i]);
    auto offsetB = getConstantIntValue(b.getMixedOffsets()[i]);
    auto sizeA = getConstantIntValue(a.getMixedSizes()[i]);
    auto sizeB = getConstantIntValue(b.getMixedSizes()[i]);
    if (!offsetA || !offsetB)
      return true; // symbolic pieces of a tensor.empty lie side by side
    if (*offsetA == *offsetB)
      continue;
    bool first = *offsetA < *offsetB;
    auto size = first ? sizeA : sizeB;
    if (!size ||
        std::min(*offsetA, *offsetB) + *size <= std::max(*offsetA, *offsetB))
      return true;
  }
  return false;
}

/// The chain of insertions that ends in `value`, innermost last. Returns
/// whether each piece can be written to its place at once: the pieces fill an
/// empty tensor side by side, or the chain updates the very buffer that it
/// writes to.
static bool isWritableChain(func::FuncOp source, unsigned result, Value value,
                            SmallVectorImpl<tensor::InsertSliceOp> &chain) {
  while (auto insert = value.getDefiningOp<tensor::InsertSliceOp>()) {
    bool unitStrides =
        llvm::all_of(insert.getMixedStrides(), [](OpFoldResult stride) {
          return getConstantIntValue(stride) == 1;
        });
    for (tensor::InsertSliceOp other : chain)
      if (!isDisjoint(insert, other))
        return false;
    if (!unitStrides && !chain.empty())
      return false;
    chain.push_back(insert);
    value = insert.getDest();
  }
  if (value.getDefiningOp<tensor::EmptyOp>())
    return true;
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && inPlaceArgument(source, result) == argument.getArgNumber();
}

static void collect(func::FuncOp source, Value value, Destination destination,
                    SmallVectorImpl<Written> &written) {
  bool contiguous =
      !resultStrides(source, destination.result) &&
      llvm::all_of(destination.path, [](Operation *op) {
        return isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op);
      });
  auto descend = [&](Operation *op, Value next) {
    Destination inner = destination;
    inner.path.push_back(op);
    collect(source, next, std::move(inner), written);
  };
  Operation *op = value.getDefiningOp();
  if (auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op))
    return descend(op, collapse.getSrc());
  auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op);
  if (expand && contiguous)
    return descend(op, expand.getSrc());
  if (permutationOf(op))
    return descend(op, op->getOperand(0));
  SmallVector<tensor::InsertSliceOp> chain;
  if (isa_and_nonnull<tensor::InsertSliceOp>(op) &&
      isWritableChain(source, destination.result, value, chain)) {
    for (tensor::InsertSliceOp insert : llvm::reverse(chain))
      descend(insert, insert.getSource());
    return;
  }
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument && destination.path.empty() &&
      inPlaceArgument(source, destination.result) == argument.getArgNumber())
    return;
  written.push_back({value, std::move(destination)});
}

SmallVector<Written> findWritten(func::FuncOp source, unsigned result) {
  SmallVector<Written> written;
  collect(source, returnedValues(source)[result], {result, {}}, written);
  return written;
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

static bool isUnit(Value tensor, int64_t dimension) {
  return cast<RankedTensorType>(tensor.getType()).getDimSize(dimension) == 1;
}

/// Of the dimensions that a collapse joins, those of more than one element;
/// if there is none, the last one.
static SmallVector<int64_t> joined(tensor::CollapseShapeOp collapse,
                                   int64_t dimension) {
  SmallVector<int64_t> parts;
  ReassociationIndices group = collapse.getReassociationIndices()[dimension];
  for (int64_t part : group)
    if (!isUnit(collapse.getSrc(), part))
      parts.push_back(part);
  if (parts.empty())
    parts.push_back(group.back());
  return parts;
}

/// The dimension of an operand of a destination's path along which neighbours
/// are those along `dimension` of its result. None if there is no such one.
static std::optional<int64_t> dimensionBefore(Operation *op,
                                              int64_t dimension) {
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return joined(collapse, dimension).back();
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    for (auto [i, group] : llvm::enumerate(expand.getReassociationIndices()))
      if (llvm::is_contained(group, dimension))
        return i;
    return std::nullopt;
  }
  if (auto permutation = permutationOf(op))
    return (*permutation)[dimension];
  auto insert = cast<tensor::InsertSliceOp>(op);
  llvm::SmallBitVector dropped = insert.getDroppedDims();
  if (dropped.test(dimension) ||
      getConstantIntValue(insert.getMixedStrides()[dimension]) != 1)
    return std::nullopt;
  int64_t before = 0;
  for (int64_t i = 0; i < dimension; ++i)
    before += dropped.test(i);
  return dimension - before;
}

/// The dimension of a result with this stride and more than one element.
static std::optional<int64_t>
dimensionOfStride(func::FuncOp source, unsigned result, int64_t stride) {
  Value value = returnedValues(source)[result];
  auto strides = resultStrides(source, result);
  auto type = cast<RankedTensorType>(value.getType());
  std::optional<int64_t> found;
  int64_t contiguous = 1;
  for (int64_t i = type.getRank(); i-- > 0 && !found;) {
    int64_t own = strides ? strides[i] : contiguous;
    if (own == stride && !isUnit(value, i))
      found = i;
    if (type.isDynamicDim(i))
      contiguous = ShapedType::kDynamic;
    else if (!ShapedType::isDynamic(contiguous))
      contiguous *= type.getDimSize(i);
  }
  return found;
}

std::optional<int64_t> unitDimension(func::FuncOp source,
                                     const Destination &destination) {
  auto unit = dimensionOfStride(source, destination.result, 1);
  for (Operation *op : destination.path)
    if (unit)
      unit = dimensionBefore(op, *unit);
  return unit;
}

std::optional<InnermostDimensions>
innermostDimensions(func::FuncOp source, const Destination &destination) {
  Value value = returnedValues(source)[destination.result];
  auto inner = dimensionOfStride(source, destination.result, 1);
  if (!inner)
    return std::nullopt;
  int64_t size = cast<RankedTensorType>(value.getType()).getDimSize(*inner);
  auto outer = ShapedType::isDynamic(size)
                   ? std::nullopt
                   : dimensionOfStride(source, destination.result, size);
  for (Operation *op : destination.path) {
    if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      SmallVector<int64_t> parts = joined(collapse, *inner);
      if (parts.size() > 1) {
        inner = parts.back();
        outer = parts[parts.size() - 2];
        continue;
      }
    }
    auto insert = dyn_cast<tensor::InsertSliceOp>(op);
    if (insert && (getConstantIntValue(insert.getMixedOffsets()[*inner]) != 0 ||
                   getConstantIntValue(insert.getMixedSizes()[*inner]) !=
                       insert.getDestType().getDimSize(*inner)))
      return std::nullopt;
    inner = dimensionBefore(op, *inner);
    if (outer)
      outer = dimensionBefore(op, *outer);
    if (!inner || outer == inner)
      return std::nullopt;
  }
  if (!outer)
    return std::nullopt;
  return InnermostDimensions{*outer, *inner};
}

/// Whether the insertion spans dimension `inner` of its destination, without
/// gaps there and in dimension `inner - 1`.
static bool spans(tensor::InsertSliceOp insert, int64_t inner) {
  return !insert.getDroppedDims().any() &&
         getConstantIntValue(insert.getMixedStrides()[inner]) == 1 &&
         getConstantIntValue(insert.getMixedStrides()[inner - 1]) == 1 &&
         getConstantIntValue(insert.getMixedOffsets()[inner]) == 0 &&
         getConstantIntValue(insert.getMixedSizes()[inner]) ==
             insert.getDestType().getDimSize(inner);
}

/// Goes through the path from its end, the written value, to the result.
static bool isContiguousAcross(func::FuncOp source, unsigned result,
                               ArrayRef<Operation *> path, int64_t inner) {
  if (path.empty()) {
    auto strides = resultStrides(source, result);
    auto type = cast<RankedTensorType>(source.getResultTypes()[result]);
    return !strides ||
           (!type.isDynamicDim(inner) &&
            strides[inner - 1] == strides[inner] * type.getDimSize(inner));
  }
  if (auto permutation = permutationOf(path.back())) {
    const int64_t *outer = llvm::find(*permutation, inner - 1);
    return outer + 1 != permutation->end() && outer[1] == inner &&
           isContiguousAcross(source, result, path.drop_back(),
                              outer + 1 - permutation->begin());
  }
  // Reshapes of contiguous memory keep it contiguous.
  auto insert = dyn_cast<tensor::InsertSliceOp>(path.back());
  return (!insert || spans(insert, inner)) && !resultStrides(source, result) &&
         llvm::all_of(insert ? path.drop_back() : path, [](Operation *op) {
           return isa<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op);
         });
}

bool isContiguousAcross(func::FuncOp source, const Destination &destination,
                        int64_t inner) {
  return isContiguousAcross(source, destination.result, destination.path,
                            inner);
}

/// Splits the strides of dimensions, in the way of `groups`.
static SmallVector<Value> splitStrides(KernelFunction &function,
                                       ArrayRef<Value> strides,
                                       tensor::CollapseShapeOp op) {
  int64_t rank = op.getSrcType().getRank();
  SmallVector<Value> split(rank);
  for (auto [stride, group] :
       llvm::zip(strides, op.getReassociationIndices())) {
    Value current = stride;
    for (int64_t part : llvm::reverse(group)) {
      split[part] = current;
      current =
          function.lanes.mulIndex(current, function.dim(op.getSrc(), part));
    }
  }
  // A collapse to rank zero joins dimensions of one element only.
  for (Value &stride : split)
    if (!stride)
      stride = function.lanes.index(1);
  return split;
}

/// The part of a buffer that an insertion writes.
static Buffer insertedPart(KernelFunction &function, Buffer whole,
                           tensor::InsertSliceOp op) {
  LaneBuilder &lanes = function.lanes;
  llvm::SmallBitVector dropped = op.getDroppedDims();
  Value offset = lanes.index(0);
  SmallVector<Value> strides;
  for (auto [i, stride] : llvm::enumerate(whole.strides)) {
    Value first = function.size(op.getMixedOffsets()[i]);
    offset = lanes.addIndex(offset, lanes.mulIndex(first, stride));
    if (!dropped.test(i))
      strides.push_back(
          lanes.mulIndex(stride, function.size(op.getMixedStrides()[i])));
  }
  Value bytes =
      lanes.mulIndex(offset, lanes.index(elementBytes(whole.element)));
  return {addBytes(lanes, whole.pointer, bytes), whole.element, strides};
}

Buffer destinationBuffer(KernelFunction &function,
                         const Destination &destination) {
  Buffer buffer = function.result(destination.result);
  for (Operation *op : destination.path) {
    if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
      buffer.strides = splitStrides(function, buffer.strides, collapse);
    } else if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
      buffer.strides = function.rowMajor(function.shape(expand.getSrc()));
    } else if (auto permutation = permutationOf(op)) {
      SmallVector<Value> strides(buffer.strides.size());
      for (auto [i, from] : llvm::enumerate(*permutation))
        strides[from] = buffer.strides[i];
      buffer.strides = strides;
    } else {
      buffer = insertedPart(function, buffer, cast<tensor::InsertSliceOp>(op));
    }
  }
  return buffer;
}

} // namespace kernels
} // namespace anabranch
