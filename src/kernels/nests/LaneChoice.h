//===- LaneChoice.h - which loop has the lanes ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_NESTS_LANECHOICE_H
#define ANABRANCH_KERNELS_NESTS_LANECHOICE_H

#include "kernels/nests/KernelModel.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// Decides along which loop the lanes of a vector run, and how many they are.
void chooseLanes(const KernelModel &model, NestGroup &group,
                 const native::TargetInfo &target);

/// The nest's own loop that has the lanes, if no shared loop of the group has
/// them. None: the nest runs element by element.
std::optional<unsigned> innerLaneLoop(const KernelModel &model,
                                      const NestGroup &group,
                                      const LoopNest &nest);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_LANECHOICE_H
