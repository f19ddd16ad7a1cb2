//===- IntegerProduct.h - products of quantised tensors ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// With x = s (a - z) and w = t (b - v), where s and z do not depend on the
// depth k and t and v depend on the column n alone,
//
//   sum(x w) = s t (sum(a b) - z sum(b) - v sum(a) + K z v)
//
// The sums are exact. sum(b) depends on the weight alone, so that `initialize`
// makes it if the weight is steady.

#ifndef ANABRANCH_IMPORT_QUANTIZED_INTEGERPRODUCT_H
#define ANABRANCH_IMPORT_QUANTIZED_INTEGERPRODUCT_H

#include "import/quantized/AffineIntegers.h"

#include <string>

namespace anabranch {
namespace importer {

/// The value of a matrix product or convolution whose operands both stand for
/// integers, with its products made of integers. Null for other calls; `why`
/// then has the reason if both operands do stand for integers. `dotsBytes` says
/// whether the processor adds four products of bytes at once.
mlir::Value multiplyIntegers(LoweringBuilder &b, ir::AtenOp op, bool dotsBytes,
                             std::string &why);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_QUANTIZED_INTEGERPRODUCT_H
