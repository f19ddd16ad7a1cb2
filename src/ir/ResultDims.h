//===- ResultDims.h - a size for each unknown dimension ------- -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IR_RESULTDIMS_H
#define ANABRANCH_IR_RESULTDIMS_H

#include "mlir/IR/BuiltinTypes.h"

namespace anabranch {
namespace ir {

/// Checks that an operation has one size for each dynamic dimension of its
/// tensor results.
template <typename OpT> mlir::LogicalResult verifyResultDims(OpT op) {
  int64_t dynamicDims = 0;
  for (mlir::Type type : op->getResultTypes())
    if (auto tensor = mlir::dyn_cast<mlir::RankedTensorType>(type))
      dynamicDims += tensor.getNumDynamicDims();
  int64_t sizes = op.getResultDims().size();
  if (dynamicDims == sizes)
    return mlir::success();
  return op.emitOpError("has ")
         << dynamicDims << " dynamic result dimensions but " << sizes
         << " sizes for them";
}

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_RESULTDIMS_H
