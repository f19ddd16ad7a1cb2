//===- Padding.cpp - tensors inside a constant ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "analysis/Padding.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace analysis {

bool hasStaticPlace(OffsetSizeAndStrideOpInterface slice) {
  auto known = [](ArrayRef<int64_t> values) {
    return llvm::none_of(values, ShapedType::isDynamic);
  };
  return known(slice.getStaticOffsets()) && known(slice.getStaticSizes()) &&
         known(slice.getStaticStrides());
}

std::optional<Padding> paddingOf(Value value) {
  auto insert = value.getDefiningOp<tensor::InsertSliceOp>();
  if (!insert || insert.getDestType().getRank() == 0 ||
      !hasStaticPlace(insert) || !insert.getDestType().hasStaticShape() ||
      insert.getDroppedDims().any() || !insert.hasUnitStride())
    return std::nullopt;
  auto fill = insert.getDest().getDefiningOp<linalg::FillOp>();
  if (!fill)
    return std::nullopt;
  return Padding{insert, fill};
}

bool isZeros(Value tensor) {
  auto fill = tensor.getDefiningOp<linalg::FillOp>();
  return fill && (matchPattern(fill.getInputs()[0], m_AnyZeroFloat()) ||
                  matchPattern(fill.getInputs()[0], m_Zero()));
}

std::optional<int8_t> windowFill(Value tensor) {
  if (isZeros(tensor))
    return 0;
  auto fill = tensor.getDefiningOp<linalg::FillOp>();
  APInt byte;
  if (!fill || !fill.getInputs()[0].getType().isInteger(8) ||
      !matchPattern(fill.getInputs()[0], m_ConstantInt(&byte)))
    return std::nullopt;
  return static_cast<int8_t>(byte.getSExtValue());
}

} // namespace analysis
} // namespace anabranch
