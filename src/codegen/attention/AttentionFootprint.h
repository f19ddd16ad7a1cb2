//===- AttentionFootprint.h - what a tile of attention touches --*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_ATTENTION_ATTENTIONFOOTPRINT_H
#define ANABRANCH_CODEGEN_ATTENTION_ATTENTIONFOOTPRINT_H

#include "codegen/attention/AttentionContext.h"
#include "codegen/footprint/TileFootprint.h"

namespace anabranch {
namespace codegen {

/// Adds the reads and writes of a tile of the attention.
void addAttentionFootprint(AttentionContext &attention,
                           TileFootprint &footprint,
                           llvm::ArrayRef<Epilogue> epilogues,
                           mlir::Value tile);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_ATTENTION_ATTENTIONFOOTPRINT_H
