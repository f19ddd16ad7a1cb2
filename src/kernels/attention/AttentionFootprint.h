//===- AttentionFootprint.h - what a tile of attention touches --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_ATTENTION_ATTENTIONFOOTPRINT_H
#define ANABRANCH_KERNELS_ATTENTION_ATTENTIONFOOTPRINT_H

#include "kernels/attention/AttentionContext.h"
#include "kernels/footprint/TileFootprint.h"

namespace anabranch {
namespace kernels {

/// Adds the reads and writes of a tile of the attention.
void addAttentionFootprint(AttentionContext &attention,
                           TileFootprint &footprint,
                           llvm::ArrayRef<Epilogue> epilogues,
                           mlir::Value tile);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_ATTENTION_ATTENTIONFOOTPRINT_H
