//===- Sizes.cpp - sizes of tensors from sizes of inputs ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/Sizes.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

using namespace mlir;

namespace anabranch {
namespace ir {

OpFoldResult productOf(OpBuilder &builder, Location loc,
                       ArrayRef<OpFoldResult> sizes) {
  int64_t known = 1;
  Value unknown;
  for (OpFoldResult size : sizes) {
    if (std::optional<int64_t> constant = getConstantIntValue(size)) {
      known *= *constant;
      continue;
    }
    Value value = getValueOrCreateConstantIndexOp(builder, loc, size);
    unknown = unknown ? builder.createOrFold<arith::MulIOp>(loc, unknown, value)
                      : value;
  }
  if (!unknown || known == 0)
    return builder.getIndexAttr(known);
  if (known == 1)
    return unknown;
  return builder.createOrFold<arith::MulIOp>(
      loc, unknown, builder.create<arith::ConstantIndexOp>(loc, known));
}

/// The size of a dynamic dimension of `tensor`. `dims` holds one value for
/// each dynamic dimension of the results, in order.
static Value dynamicDim(ValueRange results, ValueRange dims, Value tensor,
                        int64_t dim) {
  unsigned next = 0;
  for (Value result : results) {
    auto type = cast<RankedTensorType>(result.getType());
    for (int64_t i = 0; i < type.getRank(); ++i) {
      if (!type.isDynamicDim(i))
        continue;
      if (result == tensor && i == dim)
        return dims[next];
      ++next;
    }
  }
  return Value();
}

/// The source's dimension for a dimension of a slice that may drop some.
static int64_t slicedDim(tensor::ExtractSliceOp slice, int64_t dim) {
  llvm::SmallBitVector dropped = slice.getDroppedDims();
  int64_t source = 0;
  for (;; ++source)
    if (!dropped.test(source) && dim-- == 0)
      return source;
}

static OpFoldResult sizeFromProducer(OpBuilder &builder, Location loc,
                                     Operation *producer, Value tensor,
                                     int64_t dim) {
  if (auto call = dyn_cast<AtenOp>(producer))
    return call.getResultSizes(cast<OpResult>(tensor).getResultNumber())[dim];
  if (auto dispatch = dyn_cast<DispatchOp>(producer))
    return dynamicDim(dispatch.getResults(), dispatch.getResultDims(), tensor,
                      dim);
  if (auto attention = dyn_cast<AttentionOp>(producer))
    return dynamicDim(attention->getResults(), attention.getResultDims(),
                      tensor, dim);
  if (auto same = dyn_cast<ReinterpretOp>(producer))
    return sizeOf(builder, loc, same.getSource(), dim);
  if (auto fft = dyn_cast<FftOp>(producer))
    return dynamicDim(fft->getResults(), fft.getResultDims(), tensor, dim);
  if (auto empty = dyn_cast<tensor::EmptyOp>(producer))
    return empty.getMixedSizes()[dim];
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(producer))
    return getMixedValues(expand.getStaticOutputShape(),
                          expand.getOutputShape(), builder)[dim];
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(producer)) {
    SmallVector<OpFoldResult> sizes;
    // `group` is a copy, because the list of groups is a temporary.
    ReassociationIndices group = collapse.getReassociationIndices()[dim];
    for (int64_t source : group)
      sizes.push_back(sizeOf(builder, loc, collapse.getSrc(), source));
    return productOf(builder, loc, sizes);
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(producer))
    return slice.getMixedSizes()[slicedDim(slice, dim)];
  if (auto cast = dyn_cast<tensor::CastOp>(producer))
    return sizeOf(builder, loc, cast.getSource(), dim);
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(producer))
    return sizeOf(builder, loc, insert.getDest(), dim);
  if (auto scatter = dyn_cast<ScatterOp>(producer))
    return sizeOf(builder, loc, scatter.getInit(), dim);
  if (auto scan = dyn_cast<ScanOp>(producer))
    return sizeOf(builder, loc, scan.getInput(), dim);
  if (auto style = dyn_cast<DestinationStyleOpInterface>(producer))
    return sizeOf(builder, loc,
                  style.getTiedOpOperand(cast<OpResult>(tensor))->get(), dim);
  return {};
}

OpFoldResult sizeOf(OpBuilder &builder, Location loc, Value tensor,
                    int64_t dim) {
  auto type = cast<RankedTensorType>(tensor.getType());
  if (!type.isDynamicDim(dim))
    return builder.getIndexAttr(type.getDimSize(dim));
  if (Operation *producer = tensor.getDefiningOp())
    if (OpFoldResult size =
            sizeFromProducer(builder, loc, producer, tensor, dim))
      return size;
  return builder.createOrFold<tensor::DimOp>(loc, tensor, dim);
}

} // namespace ir
} // namespace anabranch
