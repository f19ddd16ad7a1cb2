//===- LoopContext.h - what the emitters of a group share -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GROUPS_LOOPCONTEXT_H
#define ANABRANCH_KERNELS_GROUPS_LOOPCONTEXT_H

#include "kernels/emit/Evaluator.h"
#include "kernels/groups/FusedNests.h"

namespace anabranch {
namespace kernels {

/// Values that a loop carries, and a point of a nest's loops.
using Values = llvm::SmallVector<mlir::Value>;
using Point = llvm::SmallVector<Lanes>;

/// A group whose tile function is being emitted, and the position of its shared
/// loops at the insertion point.
struct LoopContext {
  LoopContext(const KernelModel &model, const NestGroup &group,
              Evaluator &evaluator);

  const KernelModel &model;
  const NestGroup &group;
  Evaluator &evaluator;
  KernelFunction &function;
  LaneBuilder &lanes;
  llvm::SmallVector<Lanes> sharedIndex; ///< by shared dimension
  /// If set, what the nests write to results waits here.
  llvm::SmallVectorImpl<PendingStore> *pending = nullptr;

  void setShared(const SharedLoop &loop, Lanes index);
  /// The point of a nest at this position, with its inner loops at zero.
  Point pointOf(const LoopNest &nest) const;
  mlir::Value tripCount(const FusedNests &nests, const FusedLoop &loop) const;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GROUPS_LOOPCONTEXT_H
