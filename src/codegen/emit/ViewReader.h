//===- ViewReader.h - elements of views by index arithmetic -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A view computes nothing: an element of it is an element of its source, at an
// index that follows from the view's own. Fills and constants have no source.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_VIEWREADER_H
#define ANABRANCH_CODEGEN_EMIT_VIEWREADER_H

#include "codegen/emit/Evaluator.h"

namespace anabranch {
namespace codegen {

/// Reads an element of what a view, a fill or a constant makes. The evaluator
/// gives the elements of the view's source.
class ViewReader {
public:
  explicit ViewReader(Evaluator &evaluator);

  /// The element of `result` at `index`, or nothing if another kind of
  /// operation makes it.
  std::optional<Lanes> read(mlir::OpResult result, mlir::ArrayRef<Lanes> index);

private:
  Evaluator &evaluator;
  KernelFrame &frame;
  LaneBuilder &lanes;

  Lanes slice(mlir::tensor::ExtractSliceOp op, mlir::ArrayRef<Lanes> index);
  Lanes expand(mlir::tensor::ExpandShapeOp op, mlir::ArrayRef<Lanes> index);
  Lanes collapse(mlir::tensor::CollapseShapeOp op, mlir::ArrayRef<Lanes> index);
  Lanes insert(mlir::tensor::InsertSliceOp op, mlir::ArrayRef<Lanes> index);
  Lanes constant(mlir::Operation *op, mlir::DenseElementsAttr values,
                 mlir::ArrayRef<Lanes> index);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_VIEWREADER_H
