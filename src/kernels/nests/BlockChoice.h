//===- BlockChoice.h - which positions run together -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_NESTS_BLOCKCHOICE_H
#define ANABRANCH_KERNELS_NESTS_BLOCKCHOICE_H

#include "kernels/nests/KernelModel.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// The loop whose positions a block writes interleaved if the lanes run along
/// `laneLoop`; none if the group can't.
std::optional<unsigned> interleavedLoop(const KernelModel &model,
                                        const NestGroup &group,
                                        unsigned laneLoop);

/// Finds the block loop: the shared loop of which one vector of lanes runs
/// several positions at once. Along it, elements are neighbours that the lanes
/// read or write far apart, or the positions read much in common. Call
/// chooseLanes before.
void chooseBlock(const KernelModel &model, NestGroup &group,
                 const native::TargetInfo &target);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_BLOCKCHOICE_H
