//===- Transpose.h - a square of vectors turned in registers ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_EMIT_TRANSPOSE_H
#define ANABRANCH_CODEGEN_EMIT_TRANSPOSE_H

#include "codegen/emit/Memory.h"

namespace anabranch {
namespace codegen {

/// As many vectors as each has lanes, a power of two: lane j of result i is
/// lane i of `rows[j]`.
mlir::SmallVector<mlir::Value> transpose(LaneBuilder &lanes,
                                         mlir::ArrayRef<mlir::Value> rows);

/// As many vectors: lane j is the sum of the lanes of `rows[j]`.
mlir::Value addTransposed(LaneBuilder &lanes, mlir::ArrayRef<mlir::Value> rows);

/// What `load` gives at `index` and at the positions after it in dimension
/// `along`, as many as there are lanes. `index` is linear in another dimension;
/// `along` is the one whose neighbours are neighbours in memory, so that whole
/// vectors are loaded and turned. All lanes must be active.
mlir::SmallVector<Lanes> loadTransposed(LaneBuilder &lanes,
                                        const Buffer &buffer,
                                        mlir::ArrayRef<Lanes> index,
                                        unsigned along);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_EMIT_TRANSPOSE_H
