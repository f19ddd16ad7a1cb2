//===- Generics.h - lists and copies of linalg.generic ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_SCHEDULE_FUSION_GENERICS_H
#define ANABRANCH_SCHEDULE_FUSION_GENERICS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace anabranch {
namespace schedule {

/// The generics of the body as they are now, for a pass that adds some.
llvm::SmallVector<mlir::linalg::GenericOp> genericsOf(mlir::func::FuncOp main);

/// Has an operand of `op` be `value`, whose dimensions run along these loops.
void replaceOperand(mlir::linalg::GenericOp op, unsigned operand,
                    mlir::Value value, llvm::ArrayRef<unsigned> loops);

/// A copy of `tensor`, of `sizes`, whose dimension order[i] is the tensor's
/// dimension i.
mlir::linalg::GenericOp permuted(mlir::OpBuilder &b, mlir::Value tensor,
                                 llvm::ArrayRef<unsigned> order,
                                 llvm::ArrayRef<mlir::OpFoldResult> sizes);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_GENERICS_H
