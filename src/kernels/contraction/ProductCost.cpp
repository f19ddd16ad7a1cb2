//===- ProductCost.cpp - estimated cycles of a product --------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/ProductCost.h"

#include "kernels/contraction/BlockShapes.h"
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
              const ProductLayout &layout) {
  bool isInt8 = contraction.multipliesInt8();
  if (layout.steps.hasParts())
    return target.rate(native::Multiply::TileBF16) * partShare /
           productsOfParts(layout.steps.parts, layout.steps.rightParts());
  if (layout.usesTileRegisters())
    return target.rate(isInt8 ? native::Multiply::TileInt8
                              : native::Multiply::TileBF16);
  double fma = target.rate(native::Multiply::FmaF32);
  if (isInt8)
    return std::max(target.rate(native::Multiply::DotInt8), fma);
  if (layout.word.product.pairs == WordProduct::Pairs::Dot)
    return target.rate(native::Multiply::DotBF16);
  return contraction.element.getIntOrFloatBitWidth() == 64 ? fma / 2 : fma;
}

/// Bytes of an element of the right operand in the form that blocks read.
double rightBytes(const Contraction &contraction, const ProductLayout &layout) {
  if (layout.word.kPack > 1)
    return 4.0 / layout.word.kPack * layout.steps.rightParts();
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
  std::optional<Sizes> sizes = sizesOf(contraction);
  if (!sizes)
    return 1;
  return roundUp(sizes->rows, tiling.rows) *
         roundUp(sizes->columns, tiling.columns()) / sizes->rows /
         sizes->columns;
}

std::optional<double> estimateCycles(const Contraction &contraction,
                                     const native::TargetInfo &target,
                                     const ProductLayout &layout,
                                     double share) {
  std::optional<Sizes> sizes = sizesOf(contraction);
  if (!sizes)
    return std::nullopt;
  auto [batch, rows, columns, depth] = *sizes;
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
                    ? layout.steps.parts * partCycles
                    : copyCycles / double(layout.word.kPack);
  double packing = layout.left.isCopied() ? groups * rows * depth * copy : 0;
  double copies = layout.right.isCopied() ? strips * columns * depth * copy : 0;
  double sums = (depths - 1) * rows * columns * 8 / cpu.l2Load;
  double tiles = strips * groups * tileCycles;
  // Fetching and reading the left operand overlap with products in part.
  return batch * (std::max(products, reading) + fetching / 2 + left / 4 +
                  packing + copies + sums + tiles);
}

} // namespace kernels
} // namespace anabranch
