//===- IntegerRows.h - products of quantised rows ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// With rows x = s (a - z), where s and z do not depend on the depth,
//
//   sum(x w) = s (sum(a w) - z sum(w))
//
// A weight w that has scales along the depth is no integer times one number. If
// it is kept in few bits, its kernel multiplies the integers of each of its
// groups by the bytes a (QuantizedWeight.h).

#ifndef ANABRANCH_IMPORT_QUANTIZED_INTEGERROWS_H
#define ANABRANCH_IMPORT_QUANTIZED_INTEGERROWS_H

#include "import/lowering/Lowering.h"

namespace anabranch {
namespace importer {

/// The value of a matrix product whose rows stand for bytes and whose weight is
/// made of steady ones, with scale and zero point of the rows after the
/// product. Null for other calls.
mlir::Value multiplyIntegerRows(LoweringBuilder &b, ir::AtenOp op);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_QUANTIZED_INTEGERROWS_H
