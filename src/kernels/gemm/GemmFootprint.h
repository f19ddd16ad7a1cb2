//===- GemmFootprint.h - what a tile of a product touches -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_GEMM_GEMMFOOTPRINT_H
#define ANABRANCH_KERNELS_GEMM_GEMMFOOTPRINT_H

#include "kernels/footprint/TileFootprint.h"
#include "kernels/operands/GemmContext.h"

namespace anabranch {
namespace kernels {

/// Adds the reads and writes of a tile of the product.
void addGemmFootprint(GemmContext &gemm, TileFootprint &footprint,
                      mlir::Value tile);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_GEMM_GEMMFOOTPRINT_H
