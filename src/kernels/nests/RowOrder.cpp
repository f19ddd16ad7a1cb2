//===- RowOrder.cpp - reductions that go row by row -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/RowOrder.h"

#include "kernels/nests/Combiner.h"
#include "kernels/nests/SharedLoops.h"
#include "kernels/nests/StrideClass.h"
#include "native/target/Target.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Rows that a tile adds in registers, so that it loads and stores its partial
/// results less often. The body is emitted once for each.
static constexpr int64_t manyRows = 8, someRows = 4;
/// A body of more operations is emitted for fewer rows; of still more, not at
/// all, since the arithmetic then takes longer than the reading.
static constexpr int64_t shortBody = 8, longestBody = 24;

/// The largest tensor that goes down its rows, in bytes.
static int64_t bytesOfRows(const KernelModel &model, const NestGroup &group,
                           const LoopNest &nest) {
  unsigned lane =
      *nest.loopOfShared(group.sharedLoops[group.laneLoop].dims.back());
  unsigned row = nest.innerLoops().back();
  int64_t most = 0;
  for (const analysis::Read &read : nest.reads.reads)
    if (isa<BlockArgument>(read.tensor) &&
        strideClassOf(model, read, lane) == StrideClass::Unit &&
        strideClassOf(model, read, row) == StrideClass::Far)
      most = std::max(most, tensorBytes(read.tensor).value_or(0));
  return most;
}

/// Whether the nest only reduces, along loops that run as one, and fills
/// nothing else.
static bool isPlainReduction(const KernelModel &model, const LoopNest &nest) {
  auto generic = nest.generic();
  if (nest.kind != LoopNest::Kind::Reduce || !generic ||
      !hasCombiners(generic) || !nest.fills.empty())
    return false;
  SmallVector<unsigned> inner = nest.innerLoops();
  for (size_t i = 0; i < inner.size(); ++i)
    if (nest.loops[inner[i]].parallel ||
        (i > 0 && !canJoin(model, nest, inner[i - 1], inner[i])))
      return false;
  return !inner.empty();
}

/// The number of rows that the nest reduces, if it is known.
static std::optional<int64_t> rowsOf(const KernelModel &model,
                                     const LoopNest &nest) {
  int64_t rows = 1;
  for (unsigned loop : nest.innerLoops()) {
    auto size = model.sizes->known(nest.loops[loop].size);
    if (!size)
      return std::nullopt;
    rows *= *size;
  }
  return rows;
}

/// Later nests that read the tensors again would find them in the cache only if
/// a tile had few lanes.
static bool isEligible(const KernelModel &model, const NestGroup &group) {
  return llvm::all_of(group.nests, [&](const LoopNest *nest) {
    return nest->level == 0 ? isPlainReduction(model, *nest)
                            : nest->kind == LoopNest::Kind::Write &&
                                  nest->innerLoops().empty();
  });
}

int64_t narrowestRead(const NestGroup &group) {
  int64_t bytes = 8;
  for (const LoopNest *nest : group.nests)
    for (const analysis::Read &read : nest->reads.reads)
      bytes = std::min(
          bytes, elementBytes(getElementTypeOrSelf(read.tensor.getType())));
  return bytes;
}

void chooseRowOrder(const KernelModel &model, NestGroup &group,
                    const native::TargetInfo &target) {
  if (group.laneLoop < 0 || group.lanesInside || group.rangedLoop >= 0 ||
      group.strided || !isEligible(model, group))
    return;
  auto lanes = model.knownSize(group, group.sharedLoops[group.laneLoop]);
  if (!lanes || *lanes <= group.width)
    return;
  int64_t bytes = 0, operations = 0, rows = 0;
  for (const LoopNest *nest : group.nests) {
    operations += nest->reads.operations;
    if (nest->level > 0)
      continue;
    bytes = std::max(bytes, bytesOfRows(model, group, *nest));
    auto own = rowsOf(model, *nest);
    if (!own)
      return;
    rows = std::max(rows, *own);
  }
  if (bytes <= target.model.l2Bytes || operations > longestBody ||
      rows < 2 * manyRows)
    return;
  group.rowsAtOnce = operations <= shortBody ? manyRows : someRows;
  // Whole rows are neighbours in memory: one by one, they are a single stream.
  // Several rows of a page at once would be several, which end at once.
  if (*lanes * narrowestRead(group) <= bytesOfRow(target) &&
      bytes > target.model.l3Bytes / 2)
    group.rowsAtOnce = 1;
  group.width /= group.vectors;
  group.vectors = 1;
  group.rowLevels = 1;
  for (int64_t part = group.rowsAtOnce * partsOfLevel; part < rows;
       part *= partsOfLevel)
    ++group.rowLevels;
}

} // namespace kernels
} // namespace anabranch
