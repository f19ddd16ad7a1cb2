//===- GemmFootprint.h - what a tile of a product touches -------*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_CODEGEN_GEMM_GEMMFOOTPRINT_H
#define ANABRANCH_CODEGEN_GEMM_GEMMFOOTPRINT_H

#include "codegen/footprint/TileFootprint.h"
#include "codegen/operands/GemmContext.h"

namespace anabranch {
namespace codegen {

/// Adds the reads and writes of a tile of the product.
void addGemmFootprint(GemmContext &gemm, TileFootprint &footprint,
                      mlir::Value tile);

} // namespace codegen
} // namespace anabranch

#endif // ANABRANCH_CODEGEN_GEMM_GEMMFOOTPRINT_H
