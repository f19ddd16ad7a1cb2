//===- StrideClass.h - how an access moves with a loop ----------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_NESTS_STRIDECLASS_H
#define ANABRANCH_CODEGEN_NESTS_STRIDECLASS_H

#include "codegen/nests/KernelModel.h"

namespace anabranch {
namespace codegen {

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

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_STRIDECLASS_H
