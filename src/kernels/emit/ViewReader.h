//===- ViewReader.h - elements of views by index arithmetic -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A view computes nothing. Its element is an element of its source, at an index
// that follows from the view's own. Fills and constants have no source.

#ifndef ANABRANCH_KERNELS_EMIT_VIEWREADER_H
#define ANABRANCH_KERNELS_EMIT_VIEWREADER_H

#include "kernels/emit/ElementSource.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace anabranch {
namespace kernels {

/// Reads elements of views, fills and constants. An ElementSource gives the
/// elements of what is viewed.
class ViewReader {
public:
  explicit ViewReader(ElementSource &elements);

  /// The element of `result` at `index`. Nothing if `result` is no view, fill
  /// or constant.
  std::optional<Lanes> read(mlir::OpResult result, mlir::ArrayRef<Lanes> index);

private:
  ElementSource &elements;
  KernelFunction &function;
  LaneBuilder &lanes;

  Lanes slice(mlir::tensor::ExtractSliceOp op, mlir::ArrayRef<Lanes> index);
  Lanes expand(mlir::tensor::ExpandShapeOp op, mlir::ArrayRef<Lanes> index);
  Lanes collapse(mlir::tensor::CollapseShapeOp op, mlir::ArrayRef<Lanes> index);
  Lanes insert(mlir::tensor::InsertSliceOp op, mlir::ArrayRef<Lanes> index);
  Lanes constant(mlir::Operation *op, mlir::DenseElementsAttr values,
                 mlir::ArrayRef<Lanes> index);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_VIEWREADER_H
