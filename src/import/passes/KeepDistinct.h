//===- KeepDistinct.h - results with their own buffers ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_PASSES_KEEPDISTINCT_H
#define ANABRANCH_IMPORT_PASSES_KEEPDISTINCT_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace importer {

/// Two results that were different values must not become one value, nor an
/// argument: the caller would see one buffer where PyTorch gives two. The
/// function inserts copies before `end` and returns them. `before` holds the
/// earlier results; erased values among them are only compared by address.
llvm::SmallVector<ir::AtenOp> keepDistinct(mlir::Operation *end,
                                           mlir::ArrayRef<mlir::Value> before);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_PASSES_KEEPDISTINCT_H
