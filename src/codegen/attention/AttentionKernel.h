//===- AttentionKernel.h - the kernel choice of attention -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_ATTENTION_ATTENTIONKERNEL_H
#define ANABRANCH_CODEGEN_ATTENTION_ATTENTIONKERNEL_H

#include "codegen/emit/KernelChoice.h"
#include "ir/Anabranch.h"

namespace anabranch {
namespace codegen {

/// Computes anabranch.attention without holding all scores. For a block of
/// queries it goes over the keys block by block, and keeps each row's maximum,
/// sum and weighted values.
extern const KernelChoice attentionKernel;

/// Why the kernel cannot compute this attention, which then must be decomposed;
/// nothing if it can.
std::optional<std::string> refuseAttention(ir::AttentionOp op);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_ATTENTION_ATTENTIONKERNEL_H
