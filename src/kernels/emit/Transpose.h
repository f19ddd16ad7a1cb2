//===- Transpose.h - squares transposed in registers ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_EMIT_TRANSPOSE_H
#define ANABRANCH_KERNELS_EMIT_TRANSPOSE_H

#include "kernels/emit/Memory.h"

namespace anabranch {
namespace kernels {

/// Transposes as many vectors as each has lanes, a power of two: lane j of
/// result i is lane i of `rows[j]`.
mlir::SmallVector<mlir::Value> transpose(LaneBuilder &lanes,
                                         mlir::ArrayRef<mlir::Value> rows);

/// For as many vectors as each has lanes: lane j of the result is the sum of
/// the lanes of `rows[j]`.
mlir::Value addTransposed(LaneBuilder &lanes, mlir::ArrayRef<mlir::Value> rows);

/// The elements at `index`, and at the following positions in dimension
/// `along`, as many as there are lanes. `index` is linear in another dimension.
/// Neighbours along `along` are neighbours in memory, so whole vectors are
/// loaded and transposed. All lanes must be active.
mlir::SmallVector<Lanes> loadTransposed(LaneBuilder &lanes,
                                        const Buffer &buffer,
                                        mlir::ArrayRef<Lanes> index,
                                        unsigned along);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_EMIT_TRANSPOSE_H
