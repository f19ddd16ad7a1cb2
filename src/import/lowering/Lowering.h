//===- Lowering.h - what a lowering of an ATen operator is ------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// A lowering turns one `anabranch.aten` call into operations of level "linalg"
// (docs/design/foundation.md, section 3). It may refuse at any point: its
// operations so far are erased, and the call stays a call of PyTorch.

#ifndef ANABRANCH_IMPORT_LOWERING_LOWERING_H
#define ANABRANCH_IMPORT_LOWERING_LOWERING_H

#include "import/lowering/LoweringBuilder.h"
#include <functional>

namespace anabranch {
namespace importer {

/// One value for each result of the call, of exactly its type. Null for a
/// result that has no use and was not made.
using Lowered = mlir::FailureOr<llvm::SmallVector<mlir::Value>>;
using LoweringFn = std::function<Lowered(ir::AtenOp, LoweringBuilder &)>;

/// The return value of a lowering with one result.
inline Lowered lowered(mlir::Value value) {
  return llvm::SmallVector<mlir::Value>{value};
}

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_LOWERING_H
