//===- RunSized.h - results whose sizes the run decides ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// The results of nonzero, or of a selection by a mask, have sizes that depend
// on data. Around the region that reads such a result it is a handle: in its
// type a zero stands for each size that is not known, and the call has
//
//   {anabranch.run_sized = array<i64: 0>}
//
// with the numbers of these results (docs/design/regions.md).

#ifndef ANABRANCH_IR_RUNSIZED_H
#define ANABRANCH_IR_RUNSIZED_H

#include "ir/Anabranch.h"

namespace anabranch {
namespace ir {

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

#endif // ANABRANCH_IR_RUNSIZED_H
