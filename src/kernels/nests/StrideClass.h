//===- StrideClass.h - how an access moves with a loop ----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_NESTS_STRIDECLASS_H
#define ANABRANCH_KERNELS_NESTS_STRIDECLASS_H

#include "kernels/nests/KernelModel.h"

namespace anabranch {
namespace kernels {

/// How an access moves from one iteration of a loop to the next: not at all, to
/// a neighbour in memory (or an element a few places away), or further.
enum class StrideClass { Zero, Unit, Far };

StrideClass strideClassOf(const KernelModel &model, const analysis::Read &read,
                          unsigned loop);
StrideClass strideClassOf(const KernelModel &model, const LoopNest &nest,
                          const Destination &destination, unsigned loop);

/// The loop whose few positions fill the gaps between neighbours along `loop`
/// wherever the group writes, as that of the channels fills those between the
/// points of an image. None if there is no such loop.
std::optional<unsigned> loopBetweenStores(const KernelModel &model,
                                          const NestGroup &group,
                                          const SharedLoop &loop);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_NESTS_STRIDECLASS_H
