//===- QuantizedKernel.h - the choice of quantised products -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H

#include "kernels/emit/KernelChoice.h"

namespace anabranch {
namespace kernels {

/// Computes products of few rows by a weight of 4 or 8 bits, which it reads
/// packed (ir/QuantizedWeight.h).
extern const KernelChoice quantizedKernel;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H
