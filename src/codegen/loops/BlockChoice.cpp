//===- BlockChoice.cpp - which rows run in blocks -------------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//
//
// A transpose has neighbours in memory along one loop where it reads and along
// another where it writes. With the lanes along the second, a block of the
// first reads whole vectors too.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Destinations.h"
#include "codegen/loops/Rows.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// The body is written once for each position of the block, so it must be
/// short.
static constexpr int64_t blockOperations = 8;

static bool canRunInBlocks(KernelModel &model, const Group &group) {
  if (group.laneRow < 0 || group.width < 4 || group.vectors > 1)
    return false;
  int64_t operations = 0;
  for (Nest *nest : group.nests) {
    operations += nest->reads.operations;
    if (nest->kind != Nest::Kind::Write || !nest->innerLoops().empty())
      return false;
    for (const Destination &destination : nest->destinations)
      if (inPlaceArgument(model.source, destination.result))
        return false;
  }
  auto size = knownSize(model, group, group.rows[group.laneRow]);
  return operations <= blockOperations && (!size || *size >= group.width);
}

/// The read, if its lanes lie far apart and its neighbours are along `block`.
static std::optional<TurnedRead> turn(KernelModel &model, const Group &group,
                                      const Nest &nest, const Read &read,
                                      const Row &block) {
  auto argument = dyn_cast<BlockArgument>(read.tensor);
  if (!argument)
    return std::nullopt;
  unsigned lanes = group.rows[group.laneRow].rows.back();
  unsigned position = block.rows.back();
  if (motionOf(model, read, *nest.loopOfRow(lanes)) != Motion::Jump ||
      motionOf(model, read, *nest.loopOfRow(position)) != Motion::Neighbour)
    return std::nullopt;
  TurnedRead turned{argument, {}, 0};
  unsigned laneDims = 0, blockDims = 0;
  for (auto [dim, index] : llvm::enumerate(read.index)) {
    auto loop = index.plainLoop();
    if (!loop)
      return std::nullopt;
    unsigned row = nest.loops[*loop].row;
    turned.rows.push_back(row);
    laneDims += row == lanes;
    if (row == position) {
      ++blockDims;
      turned.along = dim;
    }
  }
  if (laneDims != 1 || blockDims != 1)
    return std::nullopt;
  return turned;
}

void chooseBlocks(KernelModel &model, Group &group) {
  if (!canRunInBlocks(model, group))
    return;
  for (auto [number, row] : llvm::enumerate(group.rows)) {
    auto size = knownSize(model, group, row);
    if (static_cast<int>(number) == group.laneRow ||
        (size && *size < group.width))
      continue;
    for (Nest *nest : group.nests)
      for (const Read &read : nest->reads.reads)
        if (auto turned = turn(model, group, *nest, read, row))
          group.turned.push_back(*turned);
    if (group.turned.empty())
      continue;
    group.blockRow = number;
    return;
  }
}

} // namespace codegen
} // namespace anabranch
