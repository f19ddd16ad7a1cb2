//===- Shapes.h - sizes as values, and reshapes between them ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Size arithmetic for lowerings. A size is an OpFoldResult: an index attribute
// if it is static, else an `index` value. Arithmetic on static sizes folds, so
// one lowering serves static and symbolic shapes.

#ifndef ANABRANCH_IMPORT_LOWERING_SHAPES_H
#define ANABRANCH_IMPORT_LOWERING_SHAPES_H

#include "import/lowering/Lowering.h"

namespace anabranch {
namespace importer {

/// The sizes of a ranked tensor, as `sizeOf` finds each.
Sizes sizesOf(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value tensor);

/// The tensor type with these sizes.
mlir::RankedTensorType typeOf(llvm::ArrayRef<mlir::OpFoldResult> sizes,
                              mlir::Type element);

/// Whether two sizes are equal for all values of the symbols, as far as the
/// operations that compute them show.
bool sameSize(mlir::OpFoldResult a, mlir::OpFoldResult b);

/// Whether a size is known to be at least zero, from the operations that
/// compute it.
bool isNonNegative(mlir::OpFoldResult size);

mlir::OpFoldResult addSizes(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::OpFoldResult a, mlir::OpFoldResult b);
mlir::OpFoldResult subSizes(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::OpFoldResult a, mlir::OpFoldResult b);
mlir::OpFoldResult mulSizes(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::OpFoldResult a, mlir::OpFoldResult b);
mlir::OpFoldResult minSizes(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::OpFoldResult a, mlir::OpFoldResult b);
mlir::OpFoldResult maxSizes(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::OpFoldResult a, mlir::OpFoldResult b);
/// The size as an `index` value.
mlir::Value asIndex(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::OpFoldResult size);

/// The tensor's elements in row-major order, under other sizes of the same
/// product. Makes a collapse_shape and an expand_shape of as few dimensions as
/// the sizes allow. A tensor without elements becomes a new one.
mlir::Value reshape(mlir::OpBuilder &builder, mlir::Location loc,
                    mlir::Value tensor,
                    llvm::ArrayRef<mlir::OpFoldResult> sizes);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_SHAPES_H
