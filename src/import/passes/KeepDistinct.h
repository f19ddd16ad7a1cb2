//===- KeepDistinct.h - results with their own buffers ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_PASSES_KEEPDISTINCT_H
#define ANABRANCH_IMPORT_PASSES_KEEPDISTINCT_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace importer {

/// Two results that were different values must not become one, nor an
/// argument: the caller would see one buffer where PyTorch gives two. Copies
/// are put before `end` and given back. `before` holds the results as they
/// were; values that are gone are only compared by address.
llvm::SmallVector<ir::AtenOp> keepDistinct(mlir::Operation *end,
                                           mlir::ArrayRef<mlir::Value> before);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_PASSES_KEEPDISTINCT_H
