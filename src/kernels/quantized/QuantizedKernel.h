//===- QuantizedKernel.h - the plans of quantised products ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H

#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Both compute products of few rows by a weight of 4 or 8 bits, which they
/// read packed (ir/QuantizedWeight.h): digits in tile registers, or in vectors.
extern const PlanRow tileDigitsRow, vectorDigitsRow;

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDKERNEL_H
