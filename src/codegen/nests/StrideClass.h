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

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_NESTS_STRIDECLASS_H
