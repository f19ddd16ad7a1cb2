//===- ProductCost.h - estimated cycles of a product ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_PRODUCTCOST_H
#define ANABRANCH_KERNELS_CONTRACTION_PRODUCTCOST_H

#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// The cost of a multiply-add in blocks of vector registers, relative to the
/// best block, rows and columns that blocks compute in vain included.
double shareOfBlocks(const Contraction &contraction,
                     const native::TargetInfo &target, const Tiling &tiling);
/// The multiply-adds of whole blocks for each one that the product needs.
double shareOfRounding(const Contraction &contraction, const Tiling &tiling);

/// Whether all sizes are known and none is zero, as a comparison of layouts
/// needs them.
bool hasKnownSizes(const Contraction &contraction);

/// Estimated cycles of one core for all tiles: products, reading, copies to
/// panels, sums that wait for the next block of the depth, and the start of
/// each tile. A size that is not known counts as ir::typicalSize. `share` is
/// what a multiply-add costs, relative to the processor's rate.
double estimateCycles(const Contraction &contraction,
                      const native::TargetInfo &target,
                      const ProductLayout &layout, double share = 1);

/// How much longer workers need for equal tiles than if tiles had no ends: the
/// mean for one worker to so many, of which a package knows nothing.
double imbalance(int64_t tiles, int64_t mostWorkers);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_PRODUCTCOST_H
