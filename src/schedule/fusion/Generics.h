//===- Generics.h - lists and copies of linalg.generic ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_FUSION_GENERICS_H
#define ANABRANCH_SCHEDULE_FUSION_GENERICS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace anabranch {
namespace schedule {

/// The generics that the body has now. A pass that adds generics iterates over
/// this copy.
llvm::SmallVector<mlir::linalg::GenericOp> genericsOf(mlir::func::FuncOp main);

/// Replaces an operand of `op` by `value`, whose dimensions run along `loops`.
void replaceOperand(mlir::linalg::GenericOp op, unsigned operand,
                    mlir::Value value, llvm::ArrayRef<unsigned> loops);

/// A copy of `tensor` with permuted dimensions: dimension order[i] of the copy,
/// which has `sizes`, is dimension i of the tensor.
mlir::linalg::GenericOp permuted(mlir::OpBuilder &b, mlir::Value tensor,
                                 llvm::ArrayRef<unsigned> order,
                                 llvm::ArrayRef<mlir::OpFoldResult> sizes);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_GENERICS_H
