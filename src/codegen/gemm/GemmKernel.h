//===- GemmKernel.h - the kernel choice of products -------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_GEMMKERNEL_H
#define ANABRANCH_CODEGEN_GEMM_GEMMKERNEL_H

#include "codegen/emit/KernelChoice.h"

namespace anabranch {
namespace codegen {

/// Computes matrix products with prologue and epilogue: blocks of accumulators
/// in registers, panels of the right operand in the cache.
extern const KernelChoice gemmKernel;

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_GEMMKERNEL_H
