//===- TransposeChoice.cpp - which loads are transposed -------------------===//
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

#include "codegen/nests/TransposeChoice.h"

#include "codegen/emit/KernelFrame.h"
#include "codegen/nests/StrideClass.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// The body is written once for each position of the block, so it must be
/// short.
static constexpr int64_t blockOperations = 8;

static bool canRunInBlocks(const KernelModel &model, const NestGroup &group) {
  if (group.laneLoop < 0 || group.width < 4 || group.vectors > 1)
    return false;
  int64_t operations = 0;
  for (LoopNest *nest : group.nests) {
    operations += nest->reads.operations;
    if (nest->kind != LoopNest::Kind::Write || !nest->innerLoops().empty())
      return false;
    for (const Destination &destination : nest->destinations)
      if (inPlaceArgument(model.source, destination.result))
        return false;
  }
  auto size = model.knownSize(group, group.sharedLoops[group.laneLoop]);
  return operations <= blockOperations && (!size || *size >= group.width);
}

/// The read, if its lanes lie far apart and its neighbours are along `block`.
static std::optional<TransposedLoad> transposedLoad(const KernelModel &model,
                                                    const NestGroup &group,
                                                    const LoopNest &nest,
                                                    const analysis::Read &read,
                                                    const SharedLoop &block) {
  auto argument = dyn_cast<BlockArgument>(read.tensor);
  if (!argument)
    return std::nullopt;
  unsigned lanes = group.sharedLoops[group.laneLoop].dims.back();
  unsigned position = block.dims.back();
  if (strideClassOf(model, read, *nest.loopOfShared(lanes)) !=
          StrideClass::Far ||
      strideClassOf(model, read, *nest.loopOfShared(position)) !=
          StrideClass::Unit)
    return std::nullopt;
  TransposedLoad load{argument, {}, 0};
  unsigned laneDims = 0, blockDims = 0;
  for (auto [dim, index] : llvm::enumerate(read.index)) {
    auto loop = index.plainLoop();
    if (!loop)
      return std::nullopt;
    unsigned shared = nest.loops[*loop].shared;
    load.dims.push_back(shared);
    laneDims += shared == lanes;
    if (shared == position) {
      ++blockDims;
      load.along = dim;
    }
  }
  if (laneDims != 1 || blockDims != 1)
    return std::nullopt;
  return load;
}

void chooseTransposedLoads(const KernelModel &model, NestGroup &group) {
  if (!canRunInBlocks(model, group))
    return;
  for (auto [number, loop] : llvm::enumerate(group.sharedLoops)) {
    auto size = model.knownSize(group, loop);
    if (static_cast<int>(number) == group.laneLoop ||
        (size && *size < group.width))
      continue;
    for (LoopNest *nest : group.nests)
      for (const analysis::Read &read : nest->reads.reads)
        if (auto load = transposedLoad(model, group, *nest, read, loop))
          group.transposedLoads.push_back(*load);
    if (group.transposedLoads.empty())
      continue;
    group.blockLoop = number;
    return;
  }
}

} // namespace codegen
} // namespace anabranch
