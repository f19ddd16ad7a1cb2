//===- Evaluator.h - the value of a tensor at an index ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The one mechanism of fusion, views, gathers, prologues and epilogues. To
// get an element of a tensor, the evaluator evaluates the tensor's producer at
// that index. It ends at loads from arguments, and at values that the kernel
// has bound (accumulators, row buffers). It evaluates nothing twice at the same
// index in the same scope.

#ifndef ANABRANCH_KERNELS_EMIT_EVALUATOR_H
#define ANABRANCH_KERNELS_EMIT_EVALUATOR_H

#include "kernels/emit/KernelFunction.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace anabranch {
namespace kernels {

class Evaluator {
public:
  /// A failed check writes to the i32 at `status`.
  Evaluator(KernelFunction &function, mlir::Value status);

  KernelFunction &function;
  LaneBuilder &lanes;

  /// The elements of `tensor` at `index`, which has one entry for each
  /// dimension.
  Lanes evaluate(mlir::Value tensor, mlir::ArrayRef<Lanes> index);

  /// All results of a generic's body at a point of its iteration space.
  /// `accumulators` are the block arguments of the outputs; without them, an
  /// output that the body reads is evaluated.
  mlir::SmallVector<Lanes>
  evaluateBody(mlir::linalg::GenericOp op, mlir::ArrayRef<Lanes> point,
               mlir::ArrayRef<Lanes> accumulators = {});

  /// The values that a single-block region yields for these arguments.
  mlir::SmallVector<Lanes> evaluateRegion(mlir::Block &block,
                                          mlir::ArrayRef<Lanes> arguments);
  /// The last of these values alone, without checks that it does not depend on.
  Lanes evaluateLast(mlir::Block &block, mlir::ArrayRef<Lanes> arguments);

  /// Binds `tensor` to the accessor until the innermost scope ends.
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

  /// The values computed for `key` at this index before, in an open scope. Else
  /// those that `compute` returns, which are then remembered until the
  /// innermost scope ends.
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
  /// By the first result of the evaluated operation. The innermost scope comes
  /// last.
  llvm::DenseMap<mlir::Value, std::vector<Memory>> remembered;

  Lanes evaluateProducer(mlir::OpResult result, mlir::ArrayRef<Lanes> index);
  Lanes evaluateGeneric(mlir::linalg::GenericOp op, unsigned result,
                        mlir::ArrayRef<Lanes> index);
  Lanes evaluateExpr(mlir::AffineExpr expr, mlir::ArrayRef<Lanes> point);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_EVALUATOR_H
