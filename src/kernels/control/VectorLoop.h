//===- VectorLoop.h - a loop by vectors -------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTROL_VECTORLOOP_H
#define ANABRANCH_KERNELS_CONTROL_VECTORLOOP_H

#include "kernels/emit/Lanes.h"

namespace anabranch {
namespace kernels {

/// A body of more operations is not copied for the last vector.
constexpr int64_t longBody = 40;

/// How a loop over [low, high) is cut into vectors.
struct VectorLoop {
  mlir::Value low, high;
  int64_t width;
  bool isExact = false; ///< the trip count is a multiple of the width
  bool isLong = false;  ///< the body is long: one masked loop runs all vectors

  /// Runs `body` for each vector, the last one masked. Returns the values that
  /// the loop carries at its end.
  using Body = llvm::function_ref<mlir::SmallVector<mlir::Value>(
      Lanes index, mlir::ValueRange carried)>;
  mlir::SmallVector<mlir::Value>
  emit(LaneBuilder &lanes, mlir::ValueRange carried, Body body) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTROL_VECTORLOOP_H
