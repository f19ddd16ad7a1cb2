//===- ReshapeIndex.h - indices on both sides of a reshape ---- -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A reshape joins a group of dimensions to one, or cuts one into a group. The
// joined index is (i * size(1) + j) * size(2) + k for indices i, j, k of the
// group. The functions are templates, because callers compute with values of a
// kernel, with ranges of them, or with affine expressions.

#ifndef ANABRANCH_ANALYSIS_RESHAPEINDEX_H
#define ANABRANCH_ANALYSIS_RESHAPEINDEX_H

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

namespace anabranch {
namespace analysis {

/// The index in the joined dimension. `step(position, part)` is
/// position * size(part) + index[part].
template <typename Index, typename StepFn>
Index joinIndex(mlir::ArrayRef<int64_t> group, Index zero, StepFn step) {
  Index position = zero;
  for (int64_t part : group)
    position = step(position, part);
  return position;
}

/// Writes the index of each part of a dimension to its place in `parts`, which
/// are zero before. `shape` has the sizes of the parts: those of one element
/// stay at zero, so that the others need no division on their account.
/// `divide(position, part)` returns the quotient and the remainder of the
/// position by size(part).
template <typename Index, typename DivideFn>
void splitIndex(mlir::ArrayRef<int64_t> group, mlir::ArrayRef<int64_t> shape,
                Index position, mlir::MutableArrayRef<Index> parts,
                DivideFn divide) {
  mlir::SmallVector<int64_t> longer;
  for (int64_t part : group)
    if (shape[part] != 1)
      longer.push_back(part);
  if (longer.empty())
    return;
  for (int64_t part : llvm::reverse(llvm::drop_begin(longer)))
    std::tie(position, parts[part]) = divide(position, part);
  parts[longer.front()] = position;
}

} // namespace analysis
} // namespace anabranch

#endif // ANABRANCH_ANALYSIS_RESHAPEINDEX_H
