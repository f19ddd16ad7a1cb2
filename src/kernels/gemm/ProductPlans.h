//===- ProductPlans.h - plans of products in vector registers ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GEMM_PRODUCTPLANS_H
#define ANABRANCH_KERNELS_GEMM_PRODUCTPLANS_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Few rows, and depths of the right operand that are neighbours: dot products
/// along the depth, without a copy.
extern const PlanRow rowDotsRow;

/// Few rows, and columns of the right operand that are neighbours: sums of its
/// rows, without a copy.
extern const PlanRow rowSumsRow;

/// A right operand in the panels of matrix instructions: blocks of accumulators
/// in two by two matrices.
extern const PlanRow matrixBlocksRow;

/// Any product: blocks of accumulators in vector registers, panels of the right
/// operand in the cache.
extern const PlanRow vectorBlocksRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_PRODUCTPLANS_H
