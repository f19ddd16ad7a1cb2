//===- AttentionKernel.h - the plan of attention ----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_ATTENTION_ATTENTIONKERNEL_H
#define ANABRANCH_KERNELS_ATTENTION_ATTENTIONKERNEL_H

#include "ir/Anabranch.h"
#include "kernels/emit/Plan.h"

namespace anabranch {
namespace kernels {

/// Computes anabranch.attention without holding all scores. For a block of
/// queries it goes over the keys block by block, and keeps each row's maximum,
/// sum and weighted values.
extern const PlanRow attentionRow;

/// Why the kernel cannot compute this attention, which then must be decomposed;
/// nothing if it can.
std::optional<std::string> refuseAttention(ir::AttentionOp op);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_ATTENTIONKERNEL_H
