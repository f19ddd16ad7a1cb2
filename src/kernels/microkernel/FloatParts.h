//===- FloatParts.h - floats as sums of bf16 --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// An f32 is the sum of three bf16 numbers, its parts, and an f16 of two. Each
// part is what the parts before it leave, rounded to the nearest. tile
// registers multiply the parts:
//
//   x = x0 + x1 + x2, y = y0 + y1 + y2
//   x * y = x0*y0 + x0*y1 + x1*y0 + x0*y2 + x1*y1 + x2*y0 + rest
//
// x1 is at most 2^-8 |x| and x2 at most 2^-17 |x|, so the rest is at most
// 2^-24 |x * y|: one rounding of f32. The products of the parts of f16 have no
// rest.
//
// The two elements of a word are 16 depths apart, so that a vector of each
// makes a vector of words.
//
// An infinity or a NaN has parts that make every product NaN. So does a number
// whose first part rounds to infinity. The product of two first parts may
// overflow where that of the whole numbers does not. A sum that is no finite
// number therefore may be another one, and the kernel computes it again without
// parts.

#ifndef ANABRANCH_KERNELS_MICROKERNEL_FLOATPARTS_H
#define ANABRANCH_KERNELS_MICROKERNEL_FLOATPARTS_H

#include "kernels/emit/TypedMemory.h"

namespace anabranch {
namespace kernels {

/// Products of a part of the left operand and a part of the right one that a
/// block adds for each pair of elements: six of three parts each, four of two.
/// Small integers on the right are a part each.
int64_t productsOfParts(int64_t left, int64_t right);

/// Splits two vectors of f32 into their parts. Each part is a vector of words,
/// as f32. Word i has element i of `low` and element i of `high`.
mlir::SmallVector<mlir::Value> splitToParts(LaneBuilder &lanes, mlir::Value low,
                                            mlir::Value high, int64_t parts);

/// Stores vectors of words at an offset in `to`, each `distance` bytes after
/// the one before.
void storeParts(LaneBuilder &lanes, const TypedMemory &memory,
                mlir::ArrayRef<mlir::Value> parts, mlir::Value to,
                mlir::Value offset, int64_t distance);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_MICROKERNEL_FLOATPARTS_H
