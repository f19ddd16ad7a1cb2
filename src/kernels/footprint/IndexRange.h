//===- IndexRange.h - indices from one to another ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Emits arithmetic on ranges of indices: the range of an affine map's results,
// from the ranges of its loops. A result contains every index that any point
// gives, and sometimes more.

#ifndef ANABRANCH_KERNELS_FOOTPRINT_INDEXRANGE_H
#define ANABRANCH_KERNELS_FOOTPRINT_INDEXRANGE_H

#include "kernels/emit/KernelFunction.h"
#include "mlir/IR/AffineExpr.h"

namespace anabranch {
namespace kernels {

/// The indices from `low` to `high`, both included.
struct IndexRange {
  mlir::Value low, high;
  /// Whether the range may be empty, with `high` below `low`.
  bool maybeEmpty = false;
  /// Whether no index of the range is below zero.
  bool isNatural = true;
};

class RangeBuilder {
public:
  explicit RangeBuilder(KernelFunction &function)
      : function(function), lanes(function.lanes) {}

  /// `point` is one index. The other range goes from `first` to before `end`,
  /// and is not empty.
  IndexRange point(mlir::Value index) const;
  IndexRange between(mlir::Value first, mlir::Value end);
  /// All indices of a dimension of this size.
  IndexRange whole(mlir::Value size);

  IndexRange add(IndexRange a, IndexRange b);
  IndexRange mul(IndexRange a, IndexRange b);
  /// Divides by a positive number.
  IndexRange floorDiv(IndexRange a, mlir::Value divisor);
  IndexRange mod(IndexRange a, mlir::Value divisor);
  /// The part of the range that lies in a dimension of this size.
  IndexRange clamp(IndexRange a, mlir::Value size);
  IndexRange hull(IndexRange a, IndexRange b);

  /// The indices of each of several dimensions, the last of which runs fastest,
  /// at these positions in all of them together.
  llvm::SmallVector<IndexRange> split(IndexRange positions,
                                      llvm::ArrayRef<mlir::Value> sizes);

  /// The range of an expression; nothing if its value is not known here.
  std::optional<IndexRange> evaluate(mlir::AffineExpr expr,
                                     llvm::ArrayRef<IndexRange> dims,
                                     llvm::ArrayRef<mlir::Value> symbols);

  /// i1: whether a range has no index.
  mlir::Value isEmpty(IndexRange a);
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);

private:
  KernelFunction &function;
  LaneBuilder &lanes;

  mlir::Value quotient(IndexRange a, mlir::Value index, mlir::Value divisor);
  mlir::Value divisorOf(mlir::Value size);
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_FOOTPRINT_INDEXRANGE_H
