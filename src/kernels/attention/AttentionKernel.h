//===- AttentionKernel.h - the plans of attention ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_ATTENTION_ATTENTIONKERNEL_H
#define ANABRANCH_KERNELS_ATTENTION_ATTENTIONKERNEL_H

#include "ir/Anabranch.h"
#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// All compute anabranch.attention without holding all scores. For a block of
/// queries they go over the keys block by block, and keep each row's maximum,
/// sum and weighted values. They differ in how they read keys and values: in
/// place, in panels of vectors, or in panels of tile registers.
extern const PlanRow streamedAttentionRow, packedAttentionRow, tileAttentionRow;

/// Why the kernel cannot compute this attention, which then must be decomposed;
/// nothing if it can.
std::optional<std::string> refuseAttention(ir::AttentionOp op);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_ATTENTIONKERNEL_H
