//===- ProductCost.cpp - estimated cycles of a product --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/ProductCost.h"

#include "ir/Sizes.h"
#include "kernels/contraction/BlockShapes.h"
#include "kernels/contraction/QuantizedOperand.h"
#include "kernels/emit/Memory.h"
#include "kernels/microkernel/FloatParts.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::divideCeil;

namespace anabranch {
namespace kernels {

namespace {

struct Sizes {
  double batch, rows, columns, depth;
};

/// Rows of one group, if the product is grouped; each group is then a product
/// of the batch.
Sizes sizesOf(const Contraction &contraction) {
  auto sizeOf = [](std::optional<int64_t> known) {
    return double(std::max<int64_t>(known.value_or(ir::typicalSize), 1));
  };
  double rows = sizeOf(contraction.rowsTogether());
  double groups = contraction.isGrouped
                      ? sizeOf(contraction.knownSize(contraction.rows)) / rows
                      : 1;
  return {sizeOf(contraction.knownSize(contraction.batch)) *
              std::max(groups, 1.0),
          rows, sizeOf(contraction.knownSize(contraction.column)),
          sizeOf(contraction.knownSize(contraction.depth))};
}

double roundUp(double value, int64_t step) {
  return double(divideCeil(int64_t(value), step) * step);
}

/// Multiply-adds of a matrix instruction for each of a dot product's. Neoverse
/// V1 and V2 begin as many of the ones as of the others in a cycle.
constexpr double matricesPerDot = 2;

/// Multiply-adds of one core in a cycle.
double rateOf(const Contraction &contraction, const native::TargetInfo &target,
              const ProductLayout &layout) {
  bool isInt8 = contraction.multipliesInt8();
  if (layout.steps.hasParts())
    return target.rate(native::Multiply::TileBF16) *
           target.model.cycles.shareOfParts /
           productsOfParts(layout.steps.parts, layout.steps.rightParts());
  if (layout.usesTileRegisters())
    return target.rate(isInt8 ? native::Multiply::TileInt8
                              : native::Multiply::TileBF16);
  if (layout.word.product.isMatrix)
    return matricesPerDot * target.rate(isInt8 ? native::Multiply::DotInt8
                                               : native::Multiply::DotBF16);
  double fma = target.rate(native::Multiply::FmaF32);
  if (isInt8)
    return std::max(target.rate(native::Multiply::DotInt8), fma);
  if (layout.word.product.pairs == WordProduct::Pairs::Dot)
    return target.rate(native::Multiply::DotBF16);
  return contraction.element.getIntOrFloatBitWidth() == 64 ? fma / 2 : fma;
}

/// Bytes of an element of the right operand in the form that blocks read.
double rightBytes(const Contraction &contraction, const ProductLayout &layout) {
  if (layout.right.form == RightAccess::Form::Codes)
    return 1;
  if (layout.word.kPack > 1)
    return 4.0 / layout.word.kPack * layout.steps.rightParts();
  if (layout.right.form == RightAccess::Form::InPlace &&
      contraction.right.memory)
    return double(elementBytes(contraction.right.memory));
  return double(elementBytes(layout.right.element ? layout.right.element
                                                  : contraction.element));
}

} // namespace

double shareOfBlocks(const Contraction &contraction,
                     const native::TargetInfo &target, const Tiling &tiling) {
  for (const BlockShape &shape : blockShapes(contraction, target))
    if (shape.rows == tiling.rows && shape.vectors == tiling.vectors)
      return shape.cost;
  return shareOfRounding(contraction, tiling);
}

double shareOfRounding(const Contraction &contraction, const Tiling &tiling) {
  Sizes sizes = sizesOf(contraction);
  return roundUp(sizes.rows, tiling.rows) *
         roundUp(sizes.columns, tiling.columns()) / sizes.rows / sizes.columns;
}

double imbalance(int64_t tiles, int64_t mostWorkers) {
  double sum = 0;
  int64_t numbers = 0;
  for (int64_t workers = 1; workers <= mostWorkers; workers *= 2, ++numbers)
    sum += double(llvm::alignTo(tiles, workers)) / double(tiles);
  return sum / double(numbers);
}

bool hasKnownSizes(const Contraction &contraction) {
  auto isKnown = [](std::optional<int64_t> size) { return size && *size > 0; };
  return !contraction.isGrouped &&
         isKnown(contraction.knownSize(contraction.rows)) &&
         isKnown(contraction.knownSize(contraction.column)) &&
         isKnown(contraction.knownSize(contraction.depth)) &&
         isKnown(contraction.knownSize(contraction.batch));
}

double estimateCycles(const Contraction &contraction,
                      const native::TargetInfo &target,
                      const ProductLayout &layout, double share) {
  auto [batch, rows, columns, depth] = sizesOf(contraction);
  const machine::CpuModel &cpu = target.model;
  double bytes = rightBytes(contraction, layout);
  double rowBlocks = double(divideCeil(int64_t(rows), layout.tiling.rows));
  double panels = double(divideCeil(int64_t(columns), layout.tiling.columns()));
  double strips = double(divideCeil(int64_t(rows), layout.tiling.rowsPerTile));
  double groups =
      double(divideCeil(int64_t(panels), layout.tiling.panelsPerTile));
  double depths = double(divideCeil(int64_t(depth), layout.tiling.depth));

  double products =
      rows * columns * depth * share / rateOf(contraction, target, layout);
  // Each block of rows reads a panel again, from the cache that holds it.
  double panelBytes = layout.tiling.depth * layout.tiling.columns() * bytes;
  double panelLoad =
      panelBytes <= cpu.l1Bytes * 2.0 / 3 ? cpu.l1Load : cpu.l2Load;
  double reading = rowBlocks * columns * depth * bytes / panelLoad;
  // Each strip reads all panels once from beyond.
  double far = columns * depth * bytes > cpu.l2Bytes ? cpu.l3Load : cpu.l2Load;
  double fetching = strips * columns * depth * bytes / far;
  // The left operand is read once for each panel, or for each group of packed
  // ones.
  double leftBytes = rows * depth * bytes;
  bool leftStays =
      layout.tiling.rowsPerTile * depth * bytes <= cpu.l2Bytes / 2.0;
  double leftLoad = leftStays ? cpu.l2Load : cpu.l3Load;
  double left =
      (layout.left.isCopied() ? groups : panels) * leftBytes / leftLoad;
  double copy = layout.steps.hasParts()
                    ? layout.steps.parts * cpu.cycles.copiedPart
                    : cpu.cycles.copiedWord / double(layout.word.kPack);
  bool widens = !layout.steps.hasParts() && QuantizedOperand::find(contraction);
  double copyOfRight =
      widens ? cpu.cycles.widenedIntegers / target.lanes(32) : copy;
  double packing = layout.left.isCopied() ? groups * rows * depth * copy : 0;
  // Panels are copied whole, also where they have no columns.
  double copied = panels * double(layout.tiling.columns()) * depth;
  double copies = layout.right.isCopied() ? strips * copied * copyOfRight : 0;
  // A copy waits for the bytes that it copies.
  double arriving = std::max(copies, fetching / 2);

  double sums = (depths - 1) * rows * columns * 8 / cpu.l2Load;
  // Vectors need no configuration, which takes most of a tile's start.
  double start = cpu.cycles.tile / (layout.usesTileRegisters() ? 1 : 4);
  double tiles = strips * groups * start;
  // Fetching and reading the left operand overlap with products in part.
  return batch * (std::max(products, reading) + arriving + left / 4 + packing +
                  sums + tiles);
}

} // namespace kernels
} // namespace anabranch
