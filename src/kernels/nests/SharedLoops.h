//===- SharedLoops.h - loops that all nests of a group share ----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_NESTS_SHAREDLOOPS_H
#define ANABRANCH_KERNELS_NESTS_SHAREDLOOPS_H

#include "kernels/nests/KernelModel.h"

namespace anabranch {
namespace kernels {

/// Divides the nests into groups and finds their shared dimensions. Dimensions
/// along which memory is contiguous run as one loop.
void formGroups(KernelModel &model);

/// True if the loops `outer` and `inner` of a nest can run as one: every access
/// that moves along one moves along both, as over one longer dimension.
bool canJoin(const KernelModel &model, const LoopNest &nest, unsigned outer,
             unsigned inner);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_SHAREDLOOPS_H
