//===- Windows.h - what convolutions and pools have in common ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_WINDOWS_H
#define ANABRANCH_IMPORT_LOWERING_WINDOWS_H

#include "import/lowering/Moves.h"

namespace anabranch {
namespace importer {

/// The tensor with its last dimensions padded with `value`, by one number for
/// each dimension.
mlir::Value padSpatial(LoweringBuilder &b, Operand tensor,
                       llvm::ArrayRef<int64_t> low,
                       llvm::ArrayRef<int64_t> high, double value);

/// The index times a constant.
mlir::Value scaleIndex(Body &body, mlir::Value index, int64_t factor);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_WINDOWS_H
