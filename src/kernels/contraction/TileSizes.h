//===- TileSizes.h - sizes that plans in vector registers share -*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_KERNELS_CONTRACTION_TILESIZES_H
#define ANABRANCH_KERNELS_CONTRACTION_TILESIZES_H

#include "kernels/contraction/BlockingParameters.h"
#include "kernels/contraction/Contraction.h"
#include "kernels/contraction/ProductLayout.h"
#include "native/target/Target.h"

namespace anabranch {
namespace kernels {

/// Depths of a block in vector registers, at most.
constexpr int64_t largestDepth = 512;

/// Whether the right operand is too large for the second-level cache.
bool liesInMemory(const Contraction &contraction,
                  const native::TargetInfo &target);

/// The depth of a block: equal parts of the whole depth, if that is known, of
/// whole runs of `run` words each.
int64_t chooseDepth(const Contraction &contraction, const Tiling &tiling,
                    const Word &word, bool copiesRight, int64_t run = 1);

/// Rows of a tile. If `panelsAreEnough`, the panels alone make enough tiles.
int64_t chooseRowsPerTile(const Contraction &contraction, const Tiling &tiling,
                          bool panelsAreEnough = false);

/// Whether plans in vector registers can read the left operand in place.
bool readsLeftInPlace(const Contraction &contraction, const Word &word);

/// The words of a run, if rows in runs can be read in place; else 0.
int64_t runReadInPlace(const Contraction &contraction, const Word &word);

/// The distance at which most operands are fetched ahead, in bytes.
constexpr int64_t usualDistance = 4096;

/// How many bytes ahead of its use the right operand is fetched. Zero: a core
/// reaches the loads early by itself.
int64_t chooseBytesAhead(const Contraction &contraction,
                         const native::TargetInfo &target);

/// Rounds a given size to the nearest multiple of `step` that is of use for
/// `most`.
int64_t fitSize(int64_t given, int64_t step, int64_t most);
/// Sets the given numbers of rows and of bytes ahead, rounded to what fits.
void fitRows(const Contraction &contraction, const BlockingParameters &given,
             Tiling &tiling);
int64_t fitBytesAhead(const BlockingParameters &given, int64_t chosen);

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_KERNELS_CONTRACTION_TILESIZES_H
