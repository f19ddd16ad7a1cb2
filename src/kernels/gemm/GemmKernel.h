//===- GemmKernel.h - the plan of products ----------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GEMM_GEMMKERNEL_H
#define ANABRANCH_KERNELS_GEMM_GEMMKERNEL_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Computes matrix products with prologue and epilogue: blocks of accumulators
/// in registers, panels of the right operand in the cache.
extern const PlanRow gemmRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_GEMMKERNEL_H
