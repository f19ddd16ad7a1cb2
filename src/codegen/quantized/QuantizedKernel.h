//===- QuantizedKernel.h - the choice of quantised products -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDKERNEL_H
#define ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDKERNEL_H

#include "codegen/emit/KernelChoice.h"

namespace anabranch {
namespace codegen {

/// Computes products of few rows by a weight of 4 or 8 bits, which it reads
/// packed (ir/QuantizedWeight.h).
extern const KernelChoice quantizedKernel;

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDKERNEL_H
