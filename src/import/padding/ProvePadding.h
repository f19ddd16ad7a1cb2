//===- ProvePadding.h - does padding change the result? ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_PADDING_PROVEPADDING_H
#define ANABRANCH_IMPORT_PADDING_PROVEPADDING_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace anabranch {

/// A dimension of a result that is as long as one of an input. The padding at
/// its end is cut off again. Numbers are those of a call.
struct PaddedDim {
  int64_t output, dim, input, inputDim;
};

/// Proves that results do not change if inputs are filled up with zeros at the
/// end of their symbolic dimensions and the results are cut to size. Values
/// computed from the zeros must be finite. `main` holds linalg and whole
/// attention. A failure is a diagnostic at the operator that prevents it.
mlir::FailureOr<llvm::SmallVector<PaddedDim>>
provePadding(mlir::func::FuncOp main);

} // namespace anabranch

#endif // ANABRANCH_IMPORT_PADDING_PROVEPADDING_H
