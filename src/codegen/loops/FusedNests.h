//===- FusedNests.h - nests that run in the same loops ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_LOOPS_FUSEDNESTS_H
#define ANABRANCH_CODEGEN_LOOPS_FUSEDNESTS_H

#include "codegen/nests/KernelModel.h"

namespace anabranch {
namespace codegen {

/// A loop of fused nests: loops of each member that run as one, the last
/// counting; by member.
struct FusedLoop {
  llvm::SmallVector<llvm::SmallVector<unsigned>> loops;
  bool parallel;
  bool hasLanes = false;
};

/// Nests that run in the same loops.
struct FusedNests {
  llvm::SmallVector<LoopNest *> members;
  llvm::SmallVector<FusedLoop> outer; ///< around the accumulators
  llvm::SmallVector<FusedLoop> inner; ///< that they run over
  bool splitsLanes = false;           ///< lanes are partial accumulators

  /// Scalar operations of one point, of the temporaries filled there too.
  int64_t operations() const;
};

/// Fuses nests of one level whose inner loops are the same.
std::vector<FusedNests> fuseNests(const KernelModel &model,
                                  const NestGroup &group,
                                  llvm::ArrayRef<LoopNest *> nests);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_LOOPS_FUSEDNESTS_H
