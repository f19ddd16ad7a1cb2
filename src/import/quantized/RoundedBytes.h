//===- RoundedBytes.h - floats that become bytes ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Quantised graphs round a float, add the zero point and clamp the sum, all in
// floats. With integers z, low and high
//
//   clamp(round(x) + z, low, high) = round(clamp(x, low - z, high - z)) + z
//
// On the right the number is clamped once, together with an activation that
// bounds it, and becomes an integer in one instruction.

#ifndef ANABRANCH_IMPORT_QUANTIZED_ROUNDEDBYTES_H
#define ANABRANCH_IMPORT_QUANTIZED_ROUNDEDBYTES_H

#include "import/lowering/Lowering.h"

namespace anabranch {
namespace importer {

/// The value of a conversion to bytes of a float32 tensor that the graph rounds
/// and clamps to numbers that the bytes have. Null for other calls.
mlir::Value roundToBytes(LoweringBuilder &b, ir::AtenOp op);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_QUANTIZED_ROUNDEDBYTES_H
