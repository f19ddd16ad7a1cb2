//===- BlockingCandidates.cpp - blockings that are worth timing -----------===//
// SPDX-License-Identifier: Apache-2.0
//
// The first candidate is the choice of GemmBlocking.cpp. The others change one
// or several of its parts, and are ordered by their estimate.

#include "kernels/contraction/BlockingCandidates.h"

#include "kernels/contraction/AmxBlocking.h"
#include "kernels/emit/Memory.h"
#include "kernels/microkernel/FloatParts.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <set>
#include <tuple>

using namespace mlir;
using llvm::divideCeil;

namespace anabranch {
namespace kernels {

namespace {

/// As in AmxBlocking.cpp: cycles to start a tile, and to copy a word to a
/// panel.
constexpr double tileCycles = 220, copyCycles = 0.27;
/// So many block shapes in vector registers are combined with other parts.
constexpr size_t shapesToTry = 4;
constexpr int64_t distancesAhead[] = {0, 2048, 4096, 8192};

struct Sizes {
  double batch, rows, columns, depth;
};

std::optional<Sizes> sizesOf(const Contraction &contraction) {
  auto rows = contraction.knownSize(contraction.rows),
       columns = contraction.knownSize(contraction.column),
       depth = contraction.knownSize(contraction.depth),
       batch = contraction.knownSize(contraction.batch);
  if (contraction.isGrouped || !rows || !columns || !depth || !batch ||
      *rows < 1 || *columns < 1 || *depth < 1 || *batch < 1)
    return std::nullopt;
  return Sizes{double(*batch), double(*rows), double(*columns), double(*depth)};
}

double roundUp(double value, int64_t step) {
  return double(divideCeil(int64_t(value), step) * step);
}

/// Multiply-adds of one core in a cycle.
double rateOf(const Contraction &contraction, const native::TargetInfo &target,
              const GemmBlocking &blocking) {
  bool isInt8 = contraction.multipliesInt8();
  if (blocking.hasParts())
    return target.rate(native::Multiply::AmxBF16) * AmxBlocking::partShare /
           productsOfParts(blocking.parts, blocking.rightParts());
  if (blocking.usesAmx)
    return target.rate(isInt8 ? native::Multiply::AmxInt8
                              : native::Multiply::AmxBF16);
  double fma = target.rate(native::Multiply::FmaF32);
  if (isInt8)
    return std::max(target.rate(native::Multiply::DotInt8), fma);
  if (blocking.pairs == WordProduct::Pairs::Dot)
    return target.rate(native::Multiply::DotBF16);
  return contraction.element.getIntOrFloatBitWidth() == 64 ? fma / 2 : fma;
}

/// Multiply-adds, those that blocks compute in vain included, in units of the
/// best block's.
double multiplyAdds(const Contraction &contraction,
                    const native::TargetInfo &target,
                    const GemmBlocking &blocking, const Sizes &sizes) {
  if (!blocking.usesAmx)
    for (const BlockShape &shape : blockShapes(contraction, target))
      if (shape.rows == blocking.rows && shape.vectors == blocking.vectors)
        return sizes.rows * sizes.columns * sizes.depth * shape.cost;
  return roundUp(sizes.rows, blocking.rows) *
         roundUp(sizes.columns, blocking.columns()) * sizes.depth;
}

/// Bytes of an element of the right operand in the form that blocks read.
double rightBytes(const Contraction &contraction,
                  const GemmBlocking &blocking) {
  if (blocking.kPack > 1)
    return 4.0 / blocking.kPack * blocking.rightParts();
  return double(elementBytes(blocking.rightElement ? blocking.rightElement
                                                   : contraction.element));
}

/// A key that two candidates of a product share if they are equal.
auto identityOf(const GemmBlocking &blocking) {
  return std::tuple(blocking.usesAmx, blocking.rows, blocking.vectors,
                    blocking.depth, blocking.rowsPerTile,
                    blocking.panelsPerTile, blocking.bytesAhead);
}

/// The values to try instead of `chosen`: not set, half and double.
SmallVector<std::optional<int64_t>> around(int64_t chosen) {
  return {std::nullopt, std::max<int64_t>(chosen / 2, 1), chosen * 2};
}

/// Adds all combinations of parts around those that are chosen for this block.
void combine(const GemmBlocking &chosen, const BlockingParameters &block,
             std::vector<BlockingParameters> &all) {
  SmallVector<std::optional<int64_t>> ahead{std::nullopt};
  if (!chosen.usesAmx)
    ahead.append(std::begin(distancesAhead), std::end(distancesAhead));
  for (auto depth : around(chosen.depth))
    for (auto rowsPerTile : around(chosen.rowsPerTile))
      for (auto panelsPerTile : around(chosen.panelsPerTile))
        for (auto bytesAhead : ahead) {
          BlockingParameters parameters = block;
          parameters.depth = depth;
          parameters.rowsPerTile = rowsPerTile;
          parameters.panelsPerTile = panelsPerTile;
          parameters.bytesAhead = bytesAhead;
          all.push_back(parameters);
        }
}

std::vector<BlockingParameters> combinations(const Contraction &contraction,
                                             const native::TargetInfo &target) {
  std::vector<BlockingParameters> all;
  GemmBlocking chosen = GemmBlocking::choose(contraction, target);
  combine(chosen, {}, all);
  std::vector<BlockShape> shapes = blockShapes(contraction, target);
  shapes.resize(std::min(shapes.size(), shapesToTry));
  for (const BlockShape &shape : shapes) {
    BlockingParameters block;
    if (chosen.usesAmx)
      block.amx = 0;
    block.rows = shape.rows;
    block.vectors = shape.vectors;
    combine(GemmBlocking::choose(contraction, target, block), block, all);
  }
  return all;
}

} // namespace

double estimateCycles(const Contraction &contraction,
                      const native::TargetInfo &target,
                      const GemmBlocking &blocking) {
  Sizes sizes = *sizesOf(contraction);
  auto [batch, rows, columns, depth] = sizes;
  const machine::CpuModel &cpu = target.model;
  double bytes = rightBytes(contraction, blocking);
  double rowBlocks = double(divideCeil(int64_t(rows), blocking.rows));
  double panels = double(divideCeil(int64_t(columns), blocking.columns()));
  double strips = double(divideCeil(int64_t(rows), blocking.rowsPerTile));
  double groups = double(divideCeil(int64_t(panels), blocking.panelsPerTile));
  double depths = double(divideCeil(int64_t(depth), blocking.depth));

  double products = multiplyAdds(contraction, target, blocking, sizes) /
                    rateOf(contraction, target, blocking);
  // Each block of rows reads a panel again, from the cache that holds it.
  double panelBytes = blocking.depth * blocking.columns() * bytes;
  double panelLoad =
      panelBytes <= cpu.l1Bytes * 2.0 / 3 ? cpu.l1Load : cpu.l2Load;
  double reading = rowBlocks * columns * depth * bytes / panelLoad;
  // Each strip reads all panels once from beyond.
  double far = columns * depth * bytes > cpu.l2Bytes ? cpu.l3Load : cpu.l2Load;
  double fetching = strips * columns * depth * bytes / far;
  // The left operand is read once for each panel, or for each group of packed
  // ones.
  double leftBytes = rows * depth * bytes;
  bool leftStays = blocking.rowsPerTile * depth * bytes <= cpu.l2Bytes / 2.0;
  double leftLoad = leftStays ? cpu.l2Load : cpu.l3Load;
  double left = (blocking.packLeft ? groups : panels) * leftBytes / leftLoad;
  double copy = blocking.hasParts() ? blocking.parts * AmxBlocking::partCycles
                                    : copyCycles / double(blocking.kPack);
  double packing = blocking.packLeft ? groups * rows * depth * copy : 0;
  double copies = blocking.copiesRight() ? strips * columns * depth * copy : 0;
  double sums = (depths - 1) * rows * columns * 8 / cpu.l2Load;
  double tiles = strips * groups * tileCycles;
  // Fetching and reading the left operand overlap with products in part.
  return batch * (std::max(products, reading) + fetching / 2 + left / 4 +
                  packing + copies + sums + tiles);
}

std::vector<BlockingCandidate> listBlockings(const Contraction &contraction,
                                             const native::TargetInfo &target,
                                             size_t most) {
  GemmBlocking chosen = GemmBlocking::choose(contraction, target);
  if (!sizesOf(contraction) || most == 0)
    return {{{}, 0}};
  BlockingCandidate first{{}, estimateCycles(contraction, target, chosen)};
  std::set<decltype(identityOf(chosen))> seen{identityOf(chosen)};
  std::vector<BlockingCandidate> others;
  std::vector<BlockingParameters> all = combinations(contraction, target);
  // Of equal blockings the one with the fewest parameters stays.
  llvm::sort(all, [](const auto &a, const auto &b) {
    return std::pair(a.count(), a.text()) < std::pair(b.count(), b.text());
  });
  for (const BlockingParameters &parameters : all) {
    GemmBlocking blocking =
        GemmBlocking::choose(contraction, target, parameters);
    if (seen.insert(identityOf(blocking)).second)
      others.push_back(
          {parameters, estimateCycles(contraction, target, blocking)});
  }
  llvm::sort(others, [](const auto &a, const auto &b) {
    return std::tuple(a.cycles, a.parameters.count(), a.parameters.text()) <
           std::tuple(b.cycles, b.parameters.count(), b.parameters.text());
  });
  others.resize(std::min(others.size(), most - 1));
  others.insert(others.begin(), first);
  return others;
}

} // namespace kernels
} // namespace anabranch
