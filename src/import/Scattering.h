//===- Scattering.h - building anabranch.scatter ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_SCATTERING_H
#define ANABRANCH_IMPORT_SCATTERING_H

#include "import/Moves.h"

namespace anabranch {
namespace importer {

/// Where an update goes and what is there afterwards.
struct Placed {
  Indices position;
  Num value;
};

/// From the point of the iteration space, the element that is there now, and
/// the update.
using PlaceFn = llvm::function_ref<Placed(
    Body &, llvm::ArrayRef<mlir::Value> point, Num current, Num update)>;

/// `init` with every element of `updates` placed, in row-major order. The
/// iteration space is the shape of `updates`; the value is converted to the
/// dtype of `init`.
mlir::Value scatter(LoweringBuilder &b, Operand init, Operand updates,
                    PlaceFn place);

/// The element of `tensor` at the point, as a checked index.
mlir::Value indexAt(Body &body, mlir::Value tensor,
                    llvm::ArrayRef<mlir::Value> point, mlir::Value size,
                    bool wrap);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_SCATTERING_H
