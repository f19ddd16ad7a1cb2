//===- Stretches.h - moves that keep neighbours together --------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_STRETCHES_H
#define ANABRANCH_IMPORT_LOWERING_STRETCHES_H

#include "import/lowering/Moves.h"

namespace anabranch {
namespace importer {

/// The next `size` positions of a result's last dimension.
struct Stretch {
  int64_t size;
  /// The source's position that the first one reads, if its neighbours follow.
  std::optional<int64_t> source;
};

/// The index in dimension `dim` of the source, for this position of the result.
using DimensionFn =
    llvm::function_ref<mlir::Value(Body &, unsigned dim, mlir::Value position)>;

/// result[i, j] = source[from(i), from(j)]. If stretches are given, they fill
/// the last dimension: each is written beside the one before, and one with a
/// `source` is a plain copy.
mlir::Value gatherStretches(LoweringBuilder &b, mlir::Value source,
                            llvm::ArrayRef<mlir::OpFoldResult> sizes,
                            llvm::ArrayRef<Stretch> stretches,
                            DimensionFn from);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_STRETCHES_H
