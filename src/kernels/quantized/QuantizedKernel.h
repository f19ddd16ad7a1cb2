//===- QuantizedKernel.h - the plan of quantised products -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Computes products of few rows by a weight of 4 or 8 bits, which it reads
/// packed (ir/QuantizedWeight.h).
extern const PlanRow quantizedRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H
