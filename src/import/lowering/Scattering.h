//===- Scattering.h - building anabranch.scatter ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_IMPORT_LOWERING_SCATTERING_H
#define ANABRANCH_IMPORT_LOWERING_SCATTERING_H

#include "import/lowering/Moves.h"

namespace anabranch {
namespace importer {

/// The position that an update writes, and the element afterwards.
struct Placed {
  Indices position;
  Num value;
};

/// Computes these from the point of the iteration space, the present element
/// and the update.
using PlaceFn = llvm::function_ref<Placed(
    Body &, llvm::ArrayRef<mlir::Value> point, Num current, Num update)>;

/// `init` with every element of `updates` placed, in row-major order. The
/// iteration space is the shape of `updates`. Values are converted to the dtype
/// of `init`.
mlir::Value scatter(LoweringBuilder &b, Operand init, Operand updates,
                    PlaceFn place);

/// `scatter` for updates that are added to an element, or multiply it. Many may
/// meet in one element, so floats that are narrower than f32 are computed as
/// f32 and rounded once.
mlir::Value scatterWide(LoweringBuilder &b, Operand init, Operand updates,
                        PlaceFn place);

/// How a reduction merges an element with its updates.
struct Merging {
  Num (*combine)(Num, Num);
  /// The value of an element that does not take part itself. Integers use their
  /// extreme for an infinity.
  double identity;
  bool isMean = false;
  /// Whether it chooses one of its operands, without rounding.
  bool chooses = false;

  /// The reduction of this name in scatter_reduce or scatter; none for other
  /// names.
  static std::optional<Merging> of(llvm::StringRef name);
};

/// The position that the update at a point writes.
using TargetFn =
    llvm::function_ref<Indices(Body &, llvm::ArrayRef<mlir::Value> point)>;

/// The positions of updates along one dimension.
struct Places {
  /// A vector, or of the shape of the updates.
  Operand index;
  int64_t dim;
};

/// `self` plus `scale` times every update; floats that are narrower than f32
/// are computed as f32 and rounded once. Where the updates are few, only
/// elements that they meet are read and written.
mlir::Value scatterSum(LoweringBuilder &b, Operand self, Operand updates,
                       const Places &places, TargetFn target, double scale = 1);

/// `self` with every update merged in. Without `includeSelf`, elements that
/// have updates start from the identity.
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
