//===- Layouts.h - layouts of the tensors of @main --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_SCHEDULE_FUSION_LAYOUTS_H
#define ANABRANCH_SCHEDULE_FUSION_LAYOUTS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace anabranch {
namespace schedule {

/// The strides of an argument of @main. Null if it is row-major contiguous, as
/// frozen values are, and arguments that the caller passes as contiguous
/// copies.
mlir::DenseI64ArrayAttr stridesOfArgument(mlir::func::FuncOp main,
                                          unsigned argument);

/// The name of a frozen argument's value, or null.
mlir::StringAttr constantName(mlir::func::FuncOp main, unsigned argument);

/// The dtype of a tensor as the graph description names it: signless 8-bit
/// integers are "i8" unless `isUnsigned`. Empty for a type without a name.
llvm::StringRef dtypeName(mlir::Type element, bool isUnsigned = false);

/// The dtype of a result of @main as the caller sees it.
llvm::StringRef dtypeOfOutput(mlir::func::FuncOp main, unsigned number);

/// The dtype of a result of a call of PyTorch's (an `anabranch.aten`).
llvm::StringRef dtypeOfCall(mlir::OpResult result);

/// Bytes of one element of a dtype of this name; 0 if there is none.
int64_t dtypeBytes(llvm::StringRef dtype);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_FUSION_LAYOUTS_H
