//===- LaneChoice.cpp - which loop has the lanes --------------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// Estimates the cycles of each candidate roughly. What counts is the order of
// magnitude between neighbouring, shared and scattered addresses.

#include "kernels/nests/LaneChoice.h"

#include "kernels/nests/BlockChoice.h"
#include "kernels/nests/Combiner.h"
#include "kernels/nests/RowOrder.h"
#include "kernels/nests/ScatterTiles.h"
#include "kernels/nests/StrideClass.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

static double cost(StrideClass stride, int64_t width) {
  switch (stride) {
  case StrideClass::Zero:
    return 0.25;
  case StrideClass::Unit:
    return 1;
  case StrideClass::Far:
    return width;
  }
  return width;
}

/// Of a store whose lanes lie apart, and are filled by the positions of a
/// block.
static constexpr double interleavedCost = 1.5;

/// Cycles for `width` points of the nest with lanes along this loop. Without a
/// loop: for one lane at a time.
static double costPerVector(const KernelModel &model, const LoopNest &nest,
                            std::optional<unsigned> loop, int64_t width,
                            std::optional<int64_t> size,
                            bool interleavesStores = false) {
  double total = nest.reads.operations * 0.5;
  if (!loop)
    return width * (total + nest.reads.reads.size() + nest.destinations.size());
  for (const analysis::Read &read : nest.reads.reads)
    total += cost(strideClassOf(model, read, *loop), width);
  for (const Destination &destination : nest.destinations)
    total +=
        2 * (interleavesStores
                 ? interleavedCost
                 : cost(strideClassOf(model, nest, destination, *loop), width));
  // Lanes beyond the end of a short loop are idle.
  if (size) {
    int64_t rounded = llvm::alignTo(std::max<int64_t>(*size, 1), width);
    total *= double(rounded) / std::max<int64_t>(*size, 1);
  }
  return total;
}

/// How often the nest's body runs for each position of the shared loops.
static double pointsPerPosition(const KernelModel &model,
                                const LoopNest &nest) {
  double points = 1;
  for (unsigned loop : nest.innerLoops())
    points *= model.sizes->known(nest.loops[loop].size).value_or(64);
  return points;
}

static bool canVectorize(const LoopNest &nest, unsigned loop) {
  if (nest.kind == LoopNest::Kind::Scatter)
    return false;
  if (nest.loops[loop].parallel)
    return true;
  if (auto scan = dyn_cast_or_null<ir::ScanOp>(nest.op))
    return findCombiner(scan) != nullptr;
  auto generic = nest.generic();
  return nest.kind == LoopNest::Kind::Reduce && generic &&
         hasCombiners(generic);
}

static std::optional<unsigned>
bestInnerLoop(const KernelModel &model, const LoopNest &nest, int64_t width) {
  std::optional<unsigned> best;
  double lowest = costPerVector(model, nest, std::nullopt, width, std::nullopt);
  for (unsigned loop : nest.innerLoops()) {
    if (!canVectorize(nest, loop))
      continue;
    double candidate = costPerVector(model, nest, loop, width,
                                     model.sizes->known(nest.loops[loop].size));
    // Of equal candidates the innermost wins, which comes last.
    if (candidate <= lowest) {
      lowest = candidate;
      best = loop;
    }
  }
  return best;
}

static double costOfGroup(const KernelModel &model, const NestGroup &group,
                          int laneLoop) {
  double total = 0;
  bool interleaves = laneLoop >= 0 && interleavedLoop(model, group, laneLoop);
  for (LoopNest *nest : group.nests) {
    std::optional<unsigned> loop;
    std::optional<int64_t> size;
    if (laneLoop >= 0) {
      const SharedLoop &shared = group.sharedLoops[laneLoop];
      loop = nest->loopOfShared(shared.dims.back());
      size = model.knownSize(group, shared);
    } else {
      loop = bestInnerLoop(model, *nest, group.width);
      if (loop)
        size = model.sizes->known(nest->loops[*loop].size);
    }
    total += pointsPerPosition(model, *nest) *
             costPerVector(model, *nest, loop, group.width, size, interleaves);
  }
  return total;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Bits of the widest element with which the group computes.
static unsigned widestElement(const NestGroup &group) {
  unsigned floating = 0, integer = 16;
  auto look = [&](Type type) {
    Type element = getElementTypeOrSelf(type);
    if (isa<FloatType>(element))
      floating = std::max(floating, element.getIntOrFloatBitWidth());
    else if (element.isInteger() && element.getIntOrFloatBitWidth() > 1)
      integer = std::max(integer, element.getIntOrFloatBitWidth());
  };
  for (LoopNest *nest : group.nests) {
    look(nest->value.getType());
    for (const analysis::Read &read : nest->reads.reads)
      look(read.tensor.getType());
  }
  // Floats of 16 bits are computed in 32 bits.
  if (floating)
    return std::max(floating, 32u);
  return std::min(integer, 64u);
}

/// Bits of an element, if the group only copies elements of one size.
static std::optional<unsigned> copiedElement(const NestGroup &group) {
  std::optional<unsigned> bits;
  auto isAlike = [&](Type type) {
    unsigned own = 8 * elementBytes(getElementTypeOrSelf(type));
    return own == bits.value_or(own) && (bits = own);
  };
  for (LoopNest *nest : group.nests) {
    if (nest->kind != LoopNest::Kind::Write || nest->reads.operations != 0 ||
        !isAlike(nest->value.getType()))
      return std::nullopt;
    for (const analysis::Read &read : nest->reads.reads)
      if (!isAlike(read.tensor.getType()))
        return std::nullopt;
  }
  return bits;
}

/// Where elements are only copied, not computed with in more bits, widens the
/// vector to as many elements as a native one holds.
static void widenCopies(const KernelModel &model, NestGroup &group,
                        const native::TargetInfo &target) {
  auto bits = copiedElement(group);
  if (!bits || group.laneLoop < 0 || group.strided)
    return;
  auto size = model.knownSize(group, group.sharedLoops[group.laneLoop]);
  int64_t width = target.lanes(*bits);
  if (!size || *size >= width)
    group.width = std::max(group.width, width);
}

/// So many neighbouring native vectors go down the rows of a reduction
/// together. A single cache line in each row would defeat the prefetcher, and a
/// single accumulator would wait for itself.
static constexpr int64_t vectorsAbreast = 4;
/// With more operations than this, so many vectors would spill.
static constexpr int64_t fewOperations = 4;
/// The same for 32 registers.
static constexpr int64_t fewOperationsOf32 = 24;

/// Widens the vector to several native ones if the lanes are columns of a small
/// reduction.
static void widenLanes(const KernelModel &model, NestGroup &group,
                       const native::TargetInfo &target) {
  if (group.laneLoop < 0)
    return;
  auto size = model.knownSize(group, group.sharedLoops[group.laneLoop]);
  if (size && *size < vectorsAbreast * group.width)
    return;
  int64_t most =
      target.isa().vectorRegisters() > 16 ? fewOperationsOf32 : fewOperations;
  bool reduces = false;
  for (LoopNest *nest : group.nests) {
    if (nest->reads.operations > most || nest->reads.reads.size() > 2)
      return;
    reduces |= llvm::any_of(nest->innerLoops(), [&](unsigned loop) {
      return !nest->loops[loop].parallel;
    });
  }
  if (!reduces)
    return;
  group.width *= vectorsAbreast;
  group.vectors = vectorsAbreast;
}

/// Whether the group reduces a tensor that lies in memory, with so little
/// arithmetic that its reading takes the time.
static bool onlyReadsMemory(const NestGroup &group,
                            const native::TargetInfo &target) {
  constexpr int64_t littleArithmetic = 4;
  bool reduces = false, isLarge = false;
  int64_t operations = 0;
  for (const LoopNest *nest : group.nests) {
    operations += nest->reads.operations;
    reduces |= nest->kind == LoopNest::Kind::Reduce;
    for (const analysis::Read &read : nest->reads.reads)
      isLarge |= tensorBytes(read.tensor).value_or(0) > target.model.l2Bytes;
  }
  return reduces && isLarge && operations <= littleArithmetic;
}

/// The lanes of the vectors in which the processor does the group's work best.
static int64_t nativeLanes(const NestGroup &group,
                           const native::TargetInfo &target) {
  int64_t width = target.lanes(widestElement(group));
  // Elements of fewer bytes than a lane fill no 512 bits.
  bool inHalves = target.halvesVectors() && onlyReadsMemory(group, target) &&
                  narrowestRead(group) * width == target.isa().vectorBytes();
  return inHalves ? width / 2 : width;
}

void chooseLanes(const KernelModel &model, NestGroup &group,
                 const native::TargetInfo &target) {
  group.width = nativeLanes(group, target);
  if (chooseScatterTiles(model, group))
    return;
  double lowest = costOfGroup(model, group, -1);
  for (int loop = 0; loop < static_cast<int>(group.sharedLoops.size());
       ++loop) {
    double candidate = costOfGroup(model, group, loop);
    if (candidate <= lowest) {
      lowest = candidate;
      group.laneLoop = loop;
    }
  }
  widenLanes(model, group, target);
  bool interleaves =
      group.laneLoop >= 0 && interleavedLoop(model, group, group.laneLoop);
  for (LoopNest *nest : group.nests) {
    if (group.laneLoop < 0)
      continue;
    unsigned loop =
        *nest->loopOfShared(group.sharedLoops[group.laneLoop].dims.back());
    for (const analysis::Read &read : nest->reads.reads)
      group.strided |= strideClassOf(model, read, loop) == StrideClass::Far;
    for (const Destination &destination : nest->destinations)
      group.strided |= !interleaves && strideClassOf(model, *nest, destination,
                                                     loop) == StrideClass::Far;
  }
  widenCopies(model, group, target);
}

std::optional<unsigned> innerLaneLoop(const KernelModel &model,
                                      const NestGroup &group,
                                      const LoopNest &nest) {
  if (group.laneLoop >= 0)
    return std::nullopt;
  return bestInnerLoop(model, nest, group.width);
}

} // namespace kernels
} // namespace anabranch
