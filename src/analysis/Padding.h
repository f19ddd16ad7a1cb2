//===- Padding.h - tensors inside a constant --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_ANALYSIS_PADDING_H
#define ANABRANCH_ANALYSIS_PADDING_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace anabranch {
namespace analysis {

/// A tensor inside a constant, of static shape.
struct Padding {
  mlir::tensor::InsertSliceOp insert;
  mlir::linalg::FillOp fill;
};
std::optional<Padding> paddingOf(mlir::Value value);

/// Whether offsets, sizes and strides of a slice are known.
bool hasStaticPlace(mlir::OffsetSizeAndStrideOpInterface slice);

/// Whether a tensor is filled with zeros.
bool isZeros(mlir::Value tensor);

/// The padding that products can have around their windows: the byte that a
/// tensor of bytes is filled with, or 0 of a tensor of zeros.
std::optional<int8_t> windowFill(mlir::Value tensor);

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_PADDING_H
