//===- Sizes.h - sizes of tensors from sizes of inputs ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_SIZES_H
#define ANABRANCH_IR_SIZES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"

namespace anabranch {
namespace ir {

/// Estimates of work take this number for a size that is not known.
constexpr int64_t typicalSize = 64;

/// The size of a tensor's dimension. The function looks through the producers,
/// so that sizes are arithmetic on the sizes of inputs and no `tensor.dim` of
/// an intermediate tensor is left.
mlir::OpFoldResult sizeOf(mlir::OpBuilder &builder, mlir::Location loc,
                          mlir::Value tensor, int64_t dim);

/// The product, folded where the factors are static.
mlir::OpFoldResult productOf(mlir::OpBuilder &builder, mlir::Location loc,
                             llvm::ArrayRef<mlir::OpFoldResult> sizes);

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_SIZES_H
