//===- VectorPatch.cpp - a patch that vector registers read ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/contraction/VectorPatch.h"

#include "kernels/emit/Memory.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using llvm::divideCeil;

namespace anabranch {
namespace kernels {

namespace {

/// The depths of a run: with fewer, finding the run takes most of the time, and
/// with more, a run fills vectors of a copy.
constexpr int64_t shortestRun = 6, longestRun = 512;
/// The rows of a block are at most so many bytes apart, so that they are in
/// different sets of a cache.
constexpr int64_t farthestRows = 1024;
/// The second-level cache holds so many patches.
constexpr int64_t patchesOfCache = 3;

/// Whether the kernel can read the windows, and all sizes are known.
bool canRead(const Contraction &contraction) {
  const auto &windows = contraction.windows;
  if (!windows || !windows->axes || contraction.rows.size() < 3 ||
      contraction.isGrouped || !contraction.knownSize(contraction.rows) ||
      !contraction.knownSize(contraction.depth))
    return false;
  Type image =
      cast<RankedTensorType>(windows->image.getType()).getElementType();
  bool isNarrow = image.isBF16() || image.isF16();
  return image == contraction.element ||
         (isNarrow && contraction.element.isF32());
}

/// Whether copies of whole windows would take longer than the products of the
/// numbers that belong to no window.
bool pays(const Contraction &contraction, const native::TargetInfo &target,
          const PatchShape &shape) {
  auto columns = contraction.knownSize(contraction.column),
       depth = contraction.knownSize(contraction.depth);
  if (!columns)
    return false;
  const machine::KernelCycles &cycles = target.model.cycles;
  int64_t lanes = target.lanes(contraction.element.getIntOrFloatBitWidth());
  // Padding is between the taps of a row.
  int64_t run =
      contraction.windows->padding ? contraction.windows->run : shape.run;
  int64_t runs = *depth / run;
  auto copied = double(runs * int64_t(llvm::alignTo(run, lanes)));
  double products = double(*columns) * double(*depth) / cycles.shareOfVectors /
                    target.rate(native::Multiply::FmaF32);
  double more =
      double(shape.columns) / double(shape.windowColumns) - 1 +
      (target.isa().vectorRegisters() > 16 ? 0 : cycles.slowerInFewRegisters);
  return copied * cycles.copiedWindow > products * more;
}

} // namespace

std::optional<VectorPatch> VectorPatch::choose(const Contraction &contraction,
                                               const native::TargetInfo &target,
                                               int64_t rowsOfBlock,
                                               int64_t rowsPerTile) {
  if (!canRead(contraction) || !isa<FloatType>(contraction.element))
    return std::nullopt;
  const ImageWindows &windows = *contraction.windows;
  const auto &[slices, down, right] = *windows.axes;
  PatchShape::Layout layout{PatchShape::canJoinTaps(windows), windows.run};
  int64_t run = layout.runOf(windows);
  int64_t bytes = elementBytes(contraction.element);
  if (run < shortestRun || run > longestRun || right.points < 1 ||
      down.points < 1 || right.stride * windows.run * bytes > farthestRows)
    return std::nullopt;
  auto shapeOf = [&](int64_t windowRows) {
    return PatchShape::of(windows, windowRows, layout);
  };
  bool isSingle =
      contraction.knownSize(contraction.rows) == down.points * right.points;
  double wanted = std::max(double(rowsPerTile) / double(right.points), 1.0);
  std::optional<VectorPatch> best;
  double bestRatio = 0;
  for (int64_t part = 1; part <= down.points; ++part) {
    PatchShape shape = shapeOf(part);
    if (!PatchShape::cutsWell(down.points, part, isSingle) ||
        shape.numbers() < rowsOfBlock ||
        shape.elements() * bytes > target.model.l2Bytes / patchesOfCache)
      continue;
    double ratio = std::max(part / wanted, wanted / part);
    if (best && ratio >= bestRatio)
      continue;
    best = VectorPatch{shape};
    bestRatio = ratio;
  }
  return best && pays(contraction, target, best->shape) ? best : std::nullopt;
}

int64_t VectorPatch::depthOfBlock(int64_t depth, int64_t most) const {
  int64_t runs = depth / shape.run;
  int64_t perBlock = std::max<int64_t>(most / shape.run, 1);
  return int64_t(divideCeil(runs, divideCeil(runs, perBlock))) * shape.run;
}

} // namespace kernels
} // namespace anabranch
