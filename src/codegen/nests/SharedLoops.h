//===- SharedLoops.h - loops that all nests of a group share ----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_NESTS_SHAREDLOOPS_H
#define ANABRANCH_CODEGEN_NESTS_SHAREDLOOPS_H

#include "codegen/nests/KernelModel.h"

namespace anabranch {
namespace codegen {

/// Divides the nests into groups and finds their shared dimensions. Dimensions
/// along which memory is contiguous run as one loop.
void formGroups(KernelModel &model);

/// True if the loops `outer` and `inner` of a nest can run as one: every access
/// that moves along one moves along both, as over one longer dimension.
bool canJoin(const KernelModel &model, const LoopNest &nest, unsigned outer,
             unsigned inner);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_SHAREDLOOPS_H
