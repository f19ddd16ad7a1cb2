//===- ProductCost.h - estimated cycles of a product ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_PRODUCTCOST_H
#define ANABRANCH_KERNELS_CONTRACTION_PRODUCTCOST_H

#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// Cycles of a tile beside its products, in which registers are configured and
/// released; and to copy a word of the right operand to a panel.
constexpr double tileCycles = 220, copyCycles = 0.27;
/// Measured of products of parts: cycles to copy a part of an element, and the
/// share of the tile registers' rate that is left beside loads, relative to
/// that of vectors.
constexpr double partCycles = 0.18, partShare = 0.65;

/// What a multiply-add costs in blocks of vector registers, relative to the
/// best block, rows and columns that blocks compute in vain included.
double shareOfBlocks(const Contraction &contraction,
                     const native::TargetInfo &target, const Tiling &tiling);
/// The multiply-adds of whole blocks for each one that the product needs.
double shareOfRounding(const Contraction &contraction, const Tiling &tiling);

/// Estimated cycles of one core for all tiles: products, reading, copies to
/// panels, sums that wait for the next block of the depth, and the start of
/// each tile. None if a size is not known. `share` is what a multiply-add
/// costs, relative to the processor's rate.
std::optional<double> estimateCycles(const Contraction &contraction,
                                     const native::TargetInfo &target,
                                     const ProductLayout &layout,
                                     double share = 1);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_PRODUCTCOST_H
