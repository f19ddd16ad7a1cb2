//===- LaneChoice.cpp - which loop the lanes run along --------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A rough count of cycles for each candidate. What matters is the order of
// magnitude between neighbouring, shared and scattered addresses.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Combiner.h"
#include "codegen/emit/Destinations.h"
#include "codegen/loops/Rows.h"
#include "ir/Anabranch.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

//===----------------------------------------------------------------------===//
// Motion
//===----------------------------------------------------------------------===//

Motion motionOf(KernelModel &model, const Read &read, unsigned loop) {
  auto type = cast<RankedTensorType>(read.tensor.getType());
  auto argument = dyn_cast<BlockArgument>(read.tensor);
  DenseI64ArrayAttr strides;
  if (argument)
    strides = argumentStrides(model.source, argument.getArgNumber());
  // The last dimension that is longer than one has neighbours.
  int64_t unit = type.getRank() - 1;
  while (unit > 0 && type.getDimSize(unit) == 1)
    --unit;
  Motion motion = Motion::Still;
  for (auto [dim, index] : llvm::enumerate(read.index)) {
    auto growth = index.growth(loop);
    if (growth == 0 || type.getDimSize(dim) == 1)
      continue;
    bool neighbour =
        strides ? strides[dim] == 1 : static_cast<int64_t>(dim) == unit;
    if (strides && strides[dim] == 0)
      continue;
    bool near = growth && std::abs(*growth) <= widestStep;
    motion = motion == Motion::Still && neighbour && near ? Motion::Neighbour
                                                          : Motion::Jump;
  }
  return motion;
}

Motion motionOf(KernelModel &model, const Nest &nest,
                const Destination &destination, unsigned loop) {
  const unsigned *dimension = llvm::find(nest.resultLoops, loop);
  if (dimension == nest.resultLoops.end())
    return Motion::Still;
  int64_t position = dimension - nest.resultLoops.begin();
  return unitDimension(model.source, destination) == position
             ? Motion::Neighbour
             : Motion::Jump;
}

//===----------------------------------------------------------------------===//
// Cost
//===----------------------------------------------------------------------===//

static double cost(Motion motion, int64_t width) {
  switch (motion) {
  case Motion::Still:
    return 0.25;
  case Motion::Neighbour:
    return 1;
  case Motion::Jump:
    return width;
  }
  return width;
}

/// Cycles for `width` points of the nest with lanes along this loop; none:
/// one lane.
static double costPerVector(KernelModel &model, const Nest &nest,
                            std::optional<unsigned> loop, int64_t width,
                            std::optional<int64_t> size) {
  double total = nest.reads.operations * 0.5;
  if (!loop)
    return width * (total + nest.reads.reads.size() + nest.destinations.size());
  for (const Read &read : nest.reads.reads)
    total += cost(motionOf(model, read, *loop), width);
  for (const Destination &destination : nest.destinations)
    total += 2 * cost(motionOf(model, nest, destination, *loop), width);
  // Lanes beyond a short loop's end do nothing.
  if (size) {
    int64_t rounded = llvm::alignTo(std::max<int64_t>(*size, 1), width);
    total *= double(rounded) / std::max<int64_t>(*size, 1);
  }
  return total;
}

/// How often the nest's body runs per row.
static double pointsPerRow(KernelModel &model, const Nest &nest) {
  double points = 1;
  for (unsigned loop : nest.innerLoops())
    points *= model.sizes->known(nest.loops[loop].size).value_or(64);
  return points;
}

static bool canVectorize(const Nest &nest, unsigned loop) {
  if (nest.kind == Nest::Kind::Scatter)
    return false;
  if (nest.loops[loop].parallel)
    return true;
  auto generic = nest.generic();
  return nest.kind == Nest::Kind::Reduce && generic && hasCombiners(generic);
}

static std::optional<unsigned> bestInnerLoop(KernelModel &model,
                                             const Nest &nest, int64_t width) {
  std::optional<unsigned> best;
  double lowest = costPerVector(model, nest, std::nullopt, width, std::nullopt);
  for (unsigned loop : nest.innerLoops()) {
    if (!canVectorize(nest, loop))
      continue;
    double candidate = costPerVector(model, nest, loop, width,
                                     model.sizes->known(nest.loops[loop].size));
    // Of equals the last, which is the innermost.
    if (candidate <= lowest) {
      lowest = candidate;
      best = loop;
    }
  }
  return best;
}

std::optional<int64_t> knownSize(KernelModel &model, const Group &group,
                                 const Row &row) {
  int64_t product = 1;
  for (unsigned part : row.rows) {
    auto size = model.sizes->known(group.rowSizes[part]);
    if (!size)
      return std::nullopt;
    product *= *size;
  }
  return product;
}

static double costOfGroup(KernelModel &model, const Group &group, int laneRow) {
  double total = 0;
  for (Nest *nest : group.nests) {
    std::optional<unsigned> loop;
    std::optional<int64_t> size;
    if (laneRow >= 0) {
      const Row &row = group.rows[laneRow];
      loop = nest->loopOfRow(row.rows.back());
      size = knownSize(model, group, row);
    } else if ((loop = bestInnerLoop(model, *nest, group.width))) {
      size = model.sizes->known(nest->loops[*loop].size);
    }
    total += pointsPerRow(model, *nest) *
             costPerVector(model, *nest, loop, group.width, size);
  }
  return total;
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Bits of the widest element that the group computes with.
static unsigned widestElement(const Group &group) {
  unsigned floating = 0, integer = 16;
  auto look = [&](Type type) {
    Type element = getElementTypeOrSelf(type);
    if (isa<FloatType>(element))
      floating = std::max(floating, element.getIntOrFloatBitWidth());
    else if (element.isInteger() && element.getIntOrFloatBitWidth() > 1)
      integer = std::max(integer, element.getIntOrFloatBitWidth());
  };
  for (Nest *nest : group.nests) {
    look(nest->value.getType());
    for (const Read &read : nest->reads.reads)
      look(read.tensor.getType());
  }
  // Sixteen-bit floats are computed in 32 bits.
  if (floating)
    return std::max(floating, 32u);
  return std::min(integer, 64u);
}

/// Native vectors next to each other that walk down the rows of a reduction
/// together: a cache line alone per row defeats the prefetcher, and one
/// accumulator waits for itself.
static constexpr int64_t vectorsAbreast = 4;
/// More operations than this would spill that many registers.
static constexpr int64_t fewOperations = 4;

/// Makes the vector several native ones wide where the lanes are columns of a
/// small reduction.
static void widenLanes(KernelModel &model, Group &group) {
  if (group.laneRow < 0)
    return;
  auto size = knownSize(model, group, group.rows[group.laneRow]);
  if (size && *size < vectorsAbreast * group.width)
    return;
  bool reduces = false;
  for (Nest *nest : group.nests) {
    if (nest->reads.operations > fewOperations || nest->reads.reads.size() > 2)
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

void chooseLanes(KernelModel &model, Group &group, const TargetInfo &target) {
  group.width = target.lanes(widestElement(group));
  double lowest = costOfGroup(model, group, -1);
  for (int row = 0; row < static_cast<int>(group.rows.size()); ++row) {
    double candidate = costOfGroup(model, group, row);
    if (candidate <= lowest) {
      lowest = candidate;
      group.laneRow = row;
    }
  }
  widenLanes(model, group);
  for (Nest *nest : group.nests) {
    if (group.laneRow < 0)
      continue;
    unsigned loop = *nest->loopOfRow(group.rows[group.laneRow].rows.back());
    for (const Read &read : nest->reads.reads)
      group.strided |= motionOf(model, read, loop) == Motion::Jump;
    for (const Destination &destination : nest->destinations)
      group.strided |=
          motionOf(model, *nest, destination, loop) == Motion::Jump;
  }
}

std::optional<unsigned> laneLoopOf(KernelModel &model, const Group &group,
                                   const Nest &nest) {
  if (group.laneRow >= 0)
    return std::nullopt;
  return bestInnerLoop(model, nest, group.width);
}

} // namespace codegen
} // namespace anabranch
