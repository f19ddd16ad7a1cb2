//===- DepthOrder.h - depths in the order of their groups -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Depths of a weight that share a scale need not be neighbours: GPTQ rounds
// depths in the order of their activations, and a list (g_idx) names the group
// of each. The packed weight then has the depths of a group side by side, each
// group in the order of the depths, and the product reads the other operand's
// depths in the same order:
//
//   list  = 1 0 1 0      depth of place 0, 1, 2, 3 = 1 3 0 2
//
// `initialize` finds the order. It does not depend on the numbers of the list
// when the graph is compiled, so that equal layers share their kernels.

#ifndef ANABRANCH_SCHEDULE_WEIGHTS_DEPTHORDER_H
#define ANABRANCH_SCHEDULE_WEIGHTS_DEPTHORDER_H

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace anabranch {
namespace schedule {

struct DepthOrder {
  mlir::Value list;  ///< the group of each depth
  int64_t group = 0; ///< depths of a group

  bool operator==(const DepthOrder &other) const {
    return list == other.list && group == other.group;
  }
  bool operator!=(const DepthOrder &other) const { return !(*this == other); }

  /// Emits the depth of each place, as i32. It is -1 if the list has no depth
  /// for a place.
  mlir::Value depths(mlir::OpBuilder &b, mlir::Location loc) const;
};

/// A dimension of a tensor in the order that `depths` gives.
mlir::Value inOrder(mlir::OpBuilder &b, mlir::Location loc, mlir::Value tensor,
                    unsigned dimension, mlir::Value depths);

} // namespace schedule
} // namespace anabranch

#endif // ANABRANCH_SCHEDULE_WEIGHTS_DEPTHORDER_H
