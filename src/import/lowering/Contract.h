//===- Contract.h - sums of products ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_CONTRACT_H
#define ANABRANCH_IMPORT_LOWERING_CONTRACT_H

#include "import/lowering/Moves.h"

namespace anabranch {
namespace importer {

/// The dtype in which products of this dtype are summed: f32 for f16 and bf16,
/// i32 for narrower integers, else the dtype itself. Sums in i32 wrap as they
/// would in the narrower dtype, once they are rounded to it.
DType accumulatorOf(DType dtype);

/// result[...] = sum of left * right over the loops that `result` lacks. Each
/// operand says where it is read, as a function of the loops. Transposes before
/// it are folded into these maps, so no transposed copy exists. The result has
/// the accumulator's dtype. The right operand has the same dtype as the left
/// one, or another one of bytes.
mlir::Value contract(mlir::OpBuilder &builder, mlir::Location loc, Read left,
                     Read right, mlir::AffineMap result,
                     llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype,
                     std::optional<DType> ofRight = std::nullopt);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_CONTRACT_H
