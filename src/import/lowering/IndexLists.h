//===- IndexLists.h - what index and index_put index with -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// `x[a, :, b]`: the index tensors broadcast together. If they are
// neighbours, their common dimensions take their place in the result; else the
// common dimensions come first. The other dimensions follow in order.

#ifndef ANABRANCH_IMPORT_LOWERING_INDEXLISTS_H
#define ANABRANCH_IMPORT_LOWERING_INDEXLISTS_H

#include "import/lowering/Moves.h"

namespace anabranch {
namespace importer {

class IndexList {
public:
  /// Reads the list argument `name` that indexes `self`. Refuses masks.
  static mlir::FailureOr<IndexList> of(LoweringBuilder &b, Operand self,
                                       llvm::StringRef name);

  /// The sizes of the indexed result.
  Sizes resultSizes(LoweringBuilder &b, mlir::Value self) const;
  /// The reads of the index tensors, in a generic over the result.
  llvm::SmallVector<Read> reads(llvm::ArrayRef<mlir::OpFoldResult> sizes) const;
  /// The size of each indexed dimension of `self`.
  Indices extents(LoweringBuilder &b, mlir::Value self) const;
  /// The position in `self` for a point of the result, given the elements of
  /// the index tensors there.
  Indices target(Body &body, llvm::ArrayRef<mlir::Value> position,
                 llvm::ArrayRef<mlir::Value> elements,
                 llvm::ArrayRef<mlir::Value> extents) const;
  /// The index tensors, in order.
  llvm::ArrayRef<mlir::Value> tensors() const { return indices; }

private:
  /// The dimension of the result at which the common dimensions begin.
  int64_t start = 0;
  /// The number of common dimensions.
  int64_t width = 0;
  int64_t rank = 0;
  /// The dimensions of `self` that are indexed, and their index tensors.
  llvm::SmallVector<int64_t> dims;
  llvm::SmallVector<mlir::Value> indices;
};

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_INDEXLISTS_H
