//===- ResultDims.h - sizes of results --------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The results of nonzero, or of a selection by a mask, have sizes that depend
// on data. Around the region that reads such a result it is a handle: in its
// type a zero stands for each size that is not known, and the call has
//
//   {anabranch.run_sized = array<i64: 0>}
//
// with the numbers of these results (docs/design/regions.md).

#ifndef ANABRANCH_IR_RESULTDIMS_H
#define ANABRANCH_IR_RESULTDIMS_H

#include "ir/Anabranch.h"

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

constexpr llvm::StringLiteral runSizedAttr = "anabranch.run_sized";

/// The message of an ExpectOp, and of its LimitOp, that checks a computed size
/// for the user.
constexpr llvm::StringLiteral checkMessageAttr = "anabranch.check_message";

/// Whether the run decides a size of the value.
inline bool isRunSized(mlir::Value value) {
  auto call = value.getDefiningOp<AtenOp>();
  auto numbers =
      call ? call->getAttrOfType<mlir::DenseI64ArrayAttr>(runSizedAttr)
           : mlir::DenseI64ArrayAttr();
  return numbers && llvm::is_contained(
                        numbers.asArrayRef(),
                        llvm::cast<mlir::OpResult>(value).getResultNumber());
}

} // namespace ir
} // namespace anabranch

#endif // ANABRANCH_IR_RESULTDIMS_H
