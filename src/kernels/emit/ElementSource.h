//===- ElementSource.h - where elements of tensors come from ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_EMIT_ELEMENTSOURCE_H
#define ANABRANCH_KERNELS_EMIT_ELEMENTSOURCE_H

#include "kernels/emit/KernelFunction.h"

namespace anabranch {
namespace kernels {

/// The interface through which ViewReader and BodyEvaluator read elements. They
/// then need not know the Evaluator.
class ElementSource {
public:
  explicit ElementSource(KernelFunction &function)
      : function(function), lanes(function.lanes) {}

  KernelFunction &function;
  LaneBuilder &lanes;

  /// The elements of `tensor` at `index`.
  virtual Lanes evaluate(mlir::Value tensor, mlir::ArrayRef<Lanes> index) = 0;
  /// A scalar or constant of the kernel function's top level.
  virtual Lanes scalar(mlir::Value value) = 0;
  virtual Lanes zero(mlir::Type element) = 0;
  /// The values computed for `key` at this index before, else those that
  /// `compute` returns.
  virtual mlir::SmallVector<Lanes>
  remember(mlir::Value key, mlir::ArrayRef<Lanes> index,
           llvm::function_ref<mlir::SmallVector<Lanes>()> compute) = 0;

protected:
  ~ElementSource() = default;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_ELEMENTSOURCE_H
