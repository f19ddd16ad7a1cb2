//===- Contract.h - sums of products --------------------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_LOWERING_CONTRACT_H
#define ANABRANCH_IMPORT_LOWERING_CONTRACT_H

#include "import/lowering/Moves.h"

namespace anabranch {
namespace importer {

/// What products of this dtype are summed in: f32 for f16 and bf16, i32 for
/// narrower integers, which wrap as they would in their own dtype when they are
/// rounded to it; otherwise the dtype itself.
DType accumulatorOf(DType dtype);

/// result[...] = sum of left * right over the loops that `result` lacks. The
/// operands say where they are read per loop; transposes that made them are
/// folded into these maps, so that no transposed copy exists. The tensor that
/// comes back has the accumulator's dtype.
mlir::Value contract(mlir::OpBuilder &builder, mlir::Location loc, Read left,
                     Read right, mlir::AffineMap result,
                     llvm::ArrayRef<mlir::OpFoldResult> sizes, DType dtype);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_CONTRACT_H
