//===- Epilogue.h - what happens to a kernel's product ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The results of a contraction or attention kernel are pointwise functions and
// views of one value, the product. The kernel computes them while it holds an
// element of the product. So the path from the product to a result is followed
// forwards, to find the index of the result's element.

#ifndef ANABRANCH_KERNELS_EMIT_EPILOGUE_H
#define ANABRANCH_KERNELS_EMIT_EPILOGUE_H

#include "kernels/emit/Destinations.h"
#include "kernels/emit/Evaluator.h"

#include <optional>

namespace anabranch {
namespace kernels {

/// A value that the kernel writes, and the operations from the product to it,
/// in that order.
struct Epilogue {
  Written written;
  llvm::SmallVector<mlir::OpOperand *> path;

  /// The index of the written value that belongs to an index of the product.
  llvm::SmallVector<Lanes> indexOf(Evaluator &evaluator,
                                   llvm::ArrayRef<Lanes> product) const;
  /// Evaluates and stores the element. The product must be bound.
  void emit(Evaluator &evaluator, llvm::ArrayRef<Lanes> product) const;
};

/// The epilogues of a kernel with this product. None if a result needs more
/// than one element of the product.
std::optional<llvm::SmallVector<Epilogue, 1>>
findEpilogues(mlir::func::FuncOp source, mlir::Value product);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_EPILOGUE_H
