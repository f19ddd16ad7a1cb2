//===- BodyEvaluator.h - operations of a body on lanes ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_EMIT_BODYEVALUATOR_H
#define ANABRANCH_KERNELS_EMIT_BODYEVALUATOR_H

#include "kernels/emit/ElementSource.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace anabranch {
namespace kernels {

/// Evaluates a single-block region once. Each scalar operation of the body
/// becomes the same operation on lanes.
class BodyEvaluator {
public:
  /// `point` gives the values of linalg.index. A failed check writes to the i32
  /// at `status`.
  BodyEvaluator(ElementSource &elements, mlir::ArrayRef<Lanes> point,
                mlir::Value status);

  /// The values that the block yields for these arguments.
  mlir::SmallVector<Lanes> run(mlir::Block &block,
                               mlir::ArrayRef<Lanes> arguments);
  /// The last of them, from the operations that it depends on alone.
  Lanes runForLast(mlir::Block &block, mlir::ArrayRef<Lanes> arguments);

private:
  ElementSource &elements;
  KernelFunction &function;
  LaneBuilder &lanes;
  mlir::ArrayRef<Lanes> point;
  mlir::Value status;
  llvm::DenseMap<mlir::Value, Lanes> values;

  void evaluate(mlir::Operation &op);
  Lanes lanesOf(mlir::Value operand);
  std::optional<Lanes> indexArithmetic(mlir::Operation &op,
                                       mlir::ArrayRef<Lanes> operands);
  Lanes elementwise(mlir::Operation &op, mlir::SmallVector<Lanes> operands);
  void check(mlir::Operation &op, Lanes condition);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_BODYEVALUATOR_H
