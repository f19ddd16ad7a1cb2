//===- Scattering.h - building anabranch.scatter ----------------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_IMPORT_LOWERING_SCATTERING_H
#define ANABRANCH_IMPORT_LOWERING_SCATTERING_H

#include "import/lowering/Moves.h"

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

/// What a reduction makes of an element and the updates that meet in it.
struct Merging {
  Num (*combine)(Num, Num);
  /// What an element counts as that takes no part itself; integers take their
  /// extreme for an infinity.
  double identity;
  bool isMean = false;

  /// By the names of scatter_reduce and of scatter; none for other names.
  static std::optional<Merging> of(llvm::StringRef name);
};

/// Where the update at a point goes.
using TargetFn =
    llvm::function_ref<Indices(Body &, llvm::ArrayRef<mlir::Value> point)>;

/// `self` with every update merged in. Without `includeSelf`, what is written
/// to is first made neutral.
mlir::Value scatterMerged(LoweringBuilder &b, Operand self, Operand updates,
                          const Merging &merging, bool includeSelf,
                          TargetFn target);

/// The element of `tensor` at the point, as a checked index.
mlir::Value indexAt(Body &body, mlir::Value tensor,
                    llvm::ArrayRef<mlir::Value> point, mlir::Value size,
                    bool wrap);

} // namespace importer
} // namespace anabranch

#endif // ANABRANCH_IMPORT_LOWERING_SCATTERING_H
