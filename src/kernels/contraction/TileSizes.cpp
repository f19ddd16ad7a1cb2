//===- TileSizes.cpp - sizes that plans in vector registers share ---------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/TileSizes.h"

#include "kernels/contraction/VectorWords.h"
#include "kernels/emit/Memory.h"

#include <algorithm>
#include <numeric>

using namespace mlir;
using llvm::divideCeilSigned;

namespace anabranch {
namespace kernels {

namespace {

constexpr int64_t unknownDepth = 384;
constexpr int64_t unknownRows = 192;
constexpr int64_t largestRows = 288;
constexpr int64_t enoughTiles = 8;

/// The bytes of the right operand, if its sizes are known.
std::optional<int64_t> rightBytes(const Contraction &contraction) {
  auto columns = contraction.knownSize(contraction.column),
       depth = contraction.knownSize(contraction.depth);
  if (!columns || !depth || !contraction.right.memory)
    return std::nullopt;
  return *columns * *depth * elementBytes(contraction.right.memory);
}

} // namespace

bool liesInMemory(const Contraction &contraction,
                  const native::TargetInfo &target) {
  return rightBytes(contraction).value_or(0) > target.model.l2Bytes;
}

int64_t chooseDepth(const Contraction &contraction, const Tiling &tiling,
                    const Word &word, bool copiesRight, int64_t run) {
  auto rows = contraction.rowsTogether(),
       depth = contraction.knownSize(contraction.depth);
  if (!depth)
    return unknownDepth;
  // A word of four bytes is as large as one float.
  int64_t most = largestDepth * (word.holdsBytes() ? word.kPack : 1);
  int64_t blocks = std::max<int64_t>(1, divideCeilSigned(*depth, most));
  // A panel that no second block of rows reads need not fit a cache.
  if (!copiesRight && rows && *rows <= tiling.rows)
    blocks = 1;
  int64_t step = std::lcm(tiling.lanes, run) * word.kPack;
  // If whole windows are packed, a point's place needs no division.
  if (int64_t points = contraction.right.windowPoints; points && blocks > 1)
    if (int64_t whole = std::lcm(step, points); whole <= largestDepth)
      step = whole;
  return divideCeilSigned(divideCeilSigned(*depth, blocks), step) * step;
}

int64_t chooseRowsPerTile(const Contraction &contraction, const Tiling &tiling,
                          bool panelsAreEnough) {
  auto rows = contraction.knownSize(contraction.rows);
  if (!rows)
    return divideCeilSigned(unknownRows, tiling.rows) * tiling.rows;
  int64_t perTile =
      divideCeilSigned(*rows, divideCeilSigned(*rows, largestRows));
  auto columns = contraction.knownSize(contraction.column);
  auto batch = contraction.knownSize(contraction.batch);
  int64_t others = columns && batch
                       ? divideCeilSigned(*columns, tiling.columns()) * *batch
                       : enoughTiles;
  while (!panelsAreEnough &&
         others * divideCeilSigned(*rows, perTile) < enoughTiles &&
         perTile > 48)
    perTile = divideCeilSigned(perTile, 2);
  return divideCeilSigned(perTile, tiling.rows) * tiling.rows;
}

bool readsLeftInPlace(const Contraction &contraction, const Word &word) {
  const ContractionOperand &left = contraction.left;
  if (!left.isRegular || !left.memory)
    return false;
  if (word.kPack == 1)
    return left.memory == contraction.element;
  auto depth = contraction.knownSize(contraction.depth);
  return left.memory == contraction.narrow() &&
         left.unitLoop == contraction.depth && depth &&
         *depth % word.panelPack() == 0;
}

int64_t runReadInPlace(const Contraction &contraction, const Word &word) {
  // The loop over a shorter run takes longer than a copy.
  constexpr int64_t least = 16;
  const ContractionOperand &left = contraction.left;
  auto depth = contraction.knownSize(contraction.depth);
  Type read = word.kPack == 1 ? contraction.element : contraction.narrow();
  if (!left.depthRun || left.memory != read || !depth ||
      *depth % left.depthRun || left.depthRun % word.kPack ||
      word.product.isMatrix)
    return 0;
  int64_t run = left.depthRun / word.kPack;
  return run >= least ? run : 0;
}

/// A core does not reach the loads of the right operand early by itself if it
/// multiplies several rows, and the operand comes from beyond the second-level
/// cache each time.
int64_t chooseBytesAhead(const Contraction &contraction,
                         const native::TargetInfo &target) {
  auto rows = contraction.rowsTogether();
  if (!rows || *rows <= 1)
    return 0;
  return *rows <= fewRows || liesInMemory(contraction, target) ? usualDistance
                                                               : 0;
}

int64_t fitSize(int64_t given, int64_t step, int64_t most) {
  int64_t all = divideCeilSigned(std::max<int64_t>(most, 1), step) * step;
  return std::clamp(divideCeilSigned(std::min(given, all), step) * step, step,
                    all);
}

void fitRows(const Contraction &contraction, const BlockingParameters &given,
             Tiling &tiling) {
  auto rows = contraction.knownSize(contraction.rows);
  if (given.rowsPerTile && rows)
    tiling.rowsPerTile = fitSize(*given.rowsPerTile, tiling.rows, *rows);
}

int64_t fitBytesAhead(const BlockingParameters &given, int64_t chosen) {
  constexpr int64_t farthest = 65536;
  return given.bytesAhead ? std::min(*given.bytesAhead, farthest) : chosen;
}

} // namespace kernels
} // namespace anabranch
