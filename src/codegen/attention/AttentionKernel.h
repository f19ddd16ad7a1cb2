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

/// Makes anabranch.attention without ever holding all scores: for a block of
/// queries it goes over the keys block by block, keeping each row's maximum,
/// sum and weighted values.
extern const KernelChoice attentionKernel;

/// Why the kernel can't make this attention, so that it must be decomposed; or
/// nothing.
std::optional<std::string> refuseAttention(ir::AttentionOp op);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_ATTENTION_ATTENTIONKERNEL_H
