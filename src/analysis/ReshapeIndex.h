//===- ReshapeIndex.h - indices on both sides of a reshape ---- -*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A reshape joins a group of dimensions to one, or cuts one into a group. The
// index of the one is ((i * size(1) + j) * size(2) + k) of those of the group.
// Whoever follows indices through reshapes has an arithmetic of its own: values
// of a kernel, ranges of them, expressions.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_ANALYSIS_RESHAPEINDEX_H
#define ANABRANCH_ANALYSIS_RESHAPEINDEX_H

#include "mlir/Dialect/Utils/ReshapeOpsUtils.h"

namespace anabranch::analysis {

/// The index in the joined dimension. `step(position, part)` is
/// position * size(part) + index[part].
template <typename Index, typename StepFn>
Index joinIndex(mlir::ArrayRef<int64_t> group, Index zero, StepFn step) {
  Index position = zero;
  for (int64_t part : group)
    position = step(position, part);
  return position;
}

/// The indices in the parts of a dimension, into their places in `parts`.
/// `divide(position, part)` is the pair of quotient and remainder of the
/// position by size(part).
template <typename Index, typename DivideFn>
void splitIndex(mlir::ArrayRef<int64_t> group, Index position,
                mlir::MutableArrayRef<Index> parts, DivideFn divide) {
  if (group.empty())
    return;
  for (int64_t part : llvm::reverse(group.drop_front()))
    std::tie(position, parts[part]) = divide(position, part);
  parts[group.front()] = position;
}

} // namespace anabranch::analysis

#endif // ANABRANCH_ANALYSIS_RESHAPEINDEX_H
