//===- Evaluator.h - the value of a tensor at an index ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The one mechanism behind fusion, views, gathers, prologues and epilogues: to
// get a tensor's element, evaluate its producer at that index, down to loads
// from arguments and to values that the kernel has bound (accumulators, row
// buffers). Nothing is evaluated twice at the same index in the same scope.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_EVALUATOR_H
#define ANABRANCH_CODEGEN_EMIT_EVALUATOR_H

#include "codegen/emit/KernelFrame.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace anabranch {
namespace codegen {

class Evaluator {
public:
  /// `status` points at the i32 that failed checks are written to.
  Evaluator(KernelFrame &frame, mlir::Value status);

  KernelFrame &frame;
  LaneBuilder &lanes;

  /// The elements of `tensor` at `index`, one entry per dimension.
  Lanes evaluate(mlir::Value tensor, mlir::ArrayRef<Lanes> index);

  /// All results of a generic's body at a point of its iteration space. The
  /// block arguments of the outputs are `accumulators`; without them an output
  /// that the body reads is evaluated.
  mlir::SmallVector<Lanes>
  evaluateBody(mlir::linalg::GenericOp op, mlir::ArrayRef<Lanes> point,
               mlir::ArrayRef<Lanes> accumulators = {});

  /// What a single-block region yields for these arguments.
  mlir::SmallVector<Lanes> evaluateRegion(mlir::Block &block,
                                          mlir::ArrayRef<Lanes> arguments);

  /// Until the innermost scope ends, `tensor` is what the accessor returns.
  using Accessor = std::function<Lanes(mlir::ArrayRef<Lanes> index)>;
  void bind(mlir::Value tensor, Accessor accessor);
  void bind(mlir::Value tensor, Buffer buffer);
  bool isBound(mlir::Value tensor) const { return bound.contains(tensor); }

  /// A scalar or constant of the kernel function's top level.
  Lanes scalar(mlir::Value value);
  Lanes zero(mlir::Type element);

  /// An affine map's results at a point.
  mlir::SmallVector<Lanes> apply(mlir::AffineMap map,
                                 mlir::ArrayRef<Lanes> point);

  /// What was computed for `key` at this index before in an open scope, or what
  /// `compute` makes, which is then kept until the innermost scope ends.
  mlir::SmallVector<Lanes>
  remember(mlir::Value key, mlir::ArrayRef<Lanes> index,
           llvm::function_ref<mlir::SmallVector<Lanes>()> compute);

private:
  struct Memory {
    mlir::SmallVector<Lanes> index;
    int64_t width;
    mlir::SmallVector<Lanes> results;
  };

  mlir::Value status;
  llvm::DenseMap<mlir::Value, std::vector<Accessor>> bound;
  /// By the first result of what was evaluated; the innermost scope last.
  llvm::DenseMap<mlir::Value, std::vector<Memory>> remembered;

  Lanes evaluateProducer(mlir::OpResult result, mlir::ArrayRef<Lanes> index);
  Lanes evaluateGeneric(mlir::linalg::GenericOp op, unsigned result,
                        mlir::ArrayRef<Lanes> index);
  Lanes evaluateExpr(mlir::AffineExpr expr, mlir::ArrayRef<Lanes> point);
};

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_EVALUATOR_H
