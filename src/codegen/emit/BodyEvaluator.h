//===- BodyEvaluator.h - operations of a body on lanes ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_BODYEVALUATOR_H
#define ANABRANCH_CODEGEN_EMIT_BODYEVALUATOR_H

#include "codegen/emit/Evaluator.h"

namespace anabranch {
namespace codegen {

/// Evaluates a single-block region once, operation by operation: each scalar
/// operation of the body becomes the same operation on lanes.
class BodyEvaluator {
public:
  /// `point` gives the values of linalg.index. `status` points at the i32 that
  /// failed checks are written to.
  BodyEvaluator(Evaluator &evaluator, mlir::ArrayRef<Lanes> point,
                mlir::Value status);

  /// What the block yields for these arguments.
  mlir::SmallVector<Lanes> run(mlir::Block &block,
                               mlir::ArrayRef<Lanes> arguments);

private:
  Evaluator &evaluator;
  KernelFrame &frame;
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

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_BODYEVALUATOR_H
