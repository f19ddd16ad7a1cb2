//===- GemmKernel.h - the kernel choice of products -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GEMM_GEMMKERNEL_H
#define ANABRANCH_KERNELS_GEMM_GEMMKERNEL_H

#include "kernels/emit/KernelChoice.h"

namespace anabranch {
namespace kernels {

/// Computes matrix products with prologue and epilogue: blocks of accumulators
/// in registers, panels of the right operand in the cache.
extern const KernelChoice gemmKernel;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_GEMMKERNEL_H
