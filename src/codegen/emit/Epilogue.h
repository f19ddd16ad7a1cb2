//===- Epilogue.h - what happens to a kernel's product ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// The results of a contraction or attention kernel are pointwise functions and
// views of one value, the product. They are evaluated while an element of the
// product is at hand, so the way from the product to a result is walked forward
// to find out which element of the result that is.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_EPILOGUE_H
#define ANABRANCH_CODEGEN_EMIT_EPILOGUE_H

#include "codegen/emit/Destinations.h"
#include "codegen/emit/Evaluator.h"

#include <optional>

namespace anabranch {
namespace codegen {

/// A value that the kernel writes, and the operations that lead to it from the
/// product, nearest to the product first.
struct Epilogue {
  Written written;
  llvm::SmallVector<mlir::OpOperand *> path;

  /// The index of the written value that belongs to an index of the product.
  llvm::SmallVector<Lanes> indexOf(Evaluator &evaluator,
                                   llvm::ArrayRef<Lanes> product) const;
  /// Evaluates and stores the element. The product is bound.
  void emit(Evaluator &evaluator, llvm::ArrayRef<Lanes> product) const;
};

/// What a kernel does with its product; none if a result needs more than one
/// element of the product.
std::optional<llvm::SmallVector<Epilogue, 1>>
findEpilogues(mlir::func::FuncOp source, mlir::Value product);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_EPILOGUE_H
