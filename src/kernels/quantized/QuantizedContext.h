//===- QuantizedContext.h - sizes of a quantised product --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDCONTEXT_H
#define ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDCONTEXT_H

#include "kernels/operands/GemmContext.h"
#include "kernels/quantized/QuantizedBlocking.h"

namespace anabranch {
namespace kernels {

/// The numbers of a product that both LeftDigits and the micro-kernel need.
struct QuantizedContext {
  GemmContext &gemm;
  const QuantizedOperand &weight;
  const QuantizedBlocking &blocking;

  int64_t rows() const { return blocking.layout.tiling.rowsPerTile; }
  int64_t paddedDepths() const {
    return ir::QuantizedWeight::paddedDepths(weight.depths);
  }
  int64_t blocks() const {
    return (paddedDepths() + blocking.depth - 1) / blocking.depth;
  }
  /// Bytes of one digit for all depths of a row.
  int64_t digitBytes() const { return paddedDepths() * blocking.digits.bytes; }
  int64_t rowBytes() const { return digitBytes() * blocking.digits.count; }
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_QUANTIZED_QUANTIZEDCONTEXT_H
