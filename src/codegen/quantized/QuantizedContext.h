//===- QuantizedContext.h - sizes of a quantised product --------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDCONTEXT_H
#define ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDCONTEXT_H

#include "codegen/operands/GemmContext.h"
#include "codegen/quantized/QuantizedBlocking.h"

namespace anabranch {
namespace codegen {

/// The numbers of a product that both LeftDigits and the micro-kernel need.
struct QuantizedContext {
  GemmContext &gemm;
  const QuantizedOperand &weight;
  const QuantizedBlocking &blocking;

  int64_t rows() const { return blocking.gemm.rowsPerTile; }
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

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_QUANTIZED_QUANTIZEDCONTEXT_H
