//===- BlockChoice.cpp - which positions run together ---------------------===//
// SPDX-License-Identifier: Apache-2.0
//
// A transpose reads neighbours in memory along one loop and writes them along
// another. With the lanes along the second, a block of the first lets it read
// whole vectors too.
//
// The sum over a window of each channel reads the same weights at all points of
// a row, and shares most elements with its neighbour. A block of points loads
// both once, and its sums hide each other's latency.
//
// Where the lanes of a store lie apart because a few channels lie between them,
// a block of all channels has whole vectors to store.

#include "kernels/nests/BlockChoice.h"

#include "kernels/emit/KernelFunction.h"
#include "kernels/nests/StrideClass.h"
#include "llvm/ADT/DenseSet.h"

#include <map>
#include <vector>

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Whether the nests only evaluate and write points.
static bool onlyWritesPoints(const NestGroup &group) {
  return llvm::all_of(group.nests, [](const LoopNest *nest) {
    return nest->kind == LoopNest::Kind::Write && nest->innerLoops().empty();
  });
}

static bool canRunInBlocks(const KernelModel &model, const NestGroup &group) {
  if (group.laneLoop < 0 || group.width < 4 || group.vectors > 1 ||
      !onlyWritesPoints(group))
    return false;
  auto size = model.knownSize(group, group.sharedLoops[group.laneLoop]);
  return !size || *size >= group.width;
}

static int64_t operationsOf(const NestGroup &group) {
  int64_t operations = 0;
  for (LoopNest *nest : group.nests)
    operations += nest->reads.operations;
  return operations;
}

//===----------------------------------------------------------------------===//
// Transposed loads
//===----------------------------------------------------------------------===//

/// The body is emitted once for each position of the block, so it may have at
/// most this many operations.
static constexpr int64_t blockOperations = 8;

/// The transposed load of a read whose lanes lie far apart while neighbours in
/// memory lie along `block`; none for another read.
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

/// A square is read before any of its positions is written. If a result
/// overwrites an argument, that may be too early for the next square.
static bool updatesInPlace(const KernelModel &model, const NestGroup &group) {
  return llvm::any_of(group.nests, [&](LoopNest *nest) {
    return llvm::any_of(nest->destinations, [&](const Destination &to) {
      return inPlaceArgument(model.source, to.result).has_value();
    });
  });
}

static void chooseTransposedLoads(const KernelModel &model, NestGroup &group) {
  if (updatesInPlace(model, group))
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
    group.blockSize = group.width;
    return;
  }
}

//===----------------------------------------------------------------------===//
// Shared loads
//===----------------------------------------------------------------------===//

/// Positions of a block that share loads. They hide the latency of a
/// multiplication, and leave registers for the values that they share.
static constexpr int64_t sharingPositions = 4;
/// Registers for what a nest computes, beside values that it shares with
/// others.
static constexpr int64_t computingRegisters = 8;
/// A block gains little if fewer loads than this can be shared.
static constexpr int64_t fewestShared = 8;
/// A body of more operations is not run in blocks: it is emitted again for each
/// position.
static constexpr int64_t sharingOperations = 256;

/// An index without the constant that it adds, and the constant.
static std::pair<AffineExpr, int64_t> splitConstant(AffineExpr expr) {
  if (auto sum = dyn_cast_or_null<AffineBinaryOpExpr>(expr))
    if (sum.getKind() == AffineExprKind::Add)
      if (auto constant = dyn_cast<AffineConstantExpr>(sum.getRHS()))
        return {sum.getLHS(), constant.getValue()};
  return {expr, 0};
}

/// Whether a position reads by `first` what another position reads by `second`.
static bool overlap(const analysis::Read &first, const analysis::Read &second,
                    unsigned position) {
  if (first.tensor != second.tensor)
    return false;
  bool meet = false;
  for (auto [left, right] : llvm::zip(first.index, second.index)) {
    auto [base, at] = splitConstant(left.expr);
    auto [other, otherOffset] = splitConstant(right.expr);
    if (!base || base != other)
      return false;
    if (at == otherOffset)
      continue;
    auto growth = left.growth(position);
    if (!growth || *growth == 0 || (at - otherOffset) % *growth != 0)
      return false;
    meet = true;
  }
  return meet;
}

/// The number of a nest's loads of vectors that are the same at all positions
/// of the loop, or that a neighbour also makes.
static int64_t sharedLoads(const LoopNest &nest, unsigned lane,
                           unsigned position) {
  ArrayRef<analysis::Read> reads = nest.reads.reads;
  int64_t count = 0;
  for (size_t i = 0; i < reads.size(); ++i) {
    const analysis::Read &read = reads[i];
    auto depends = [&](unsigned loop) {
      return llvm::any_of(read.index, [&](const auto &index) {
        return !index.expr || index.loops.test(loop);
      });
    };
    if (!depends(lane))
      continue;
    count += !depends(position) ||
             llvm::any_of(reads.take_front(i), [&](const auto &other) {
               return overlap(read, other, position);
             });
  }
  return count;
}

static int64_t sharedLoads(const NestGroup &group, const SharedLoop &block) {
  unsigned lanes = group.sharedLoops[group.laneLoop].dims.back();
  int64_t count = 0;
  for (const LoopNest *nest : group.nests)
    count += sharedLoads(*nest, *nest->loopOfShared(lanes),
                         *nest->loopOfShared(block.dims.back()));
  return count;
}

/// How many vectors registers hold from one nest of a block to another, since
/// both read them.
static int64_t heldVectors(const NestGroup &group, const SharedLoop &block,
                           int64_t positions) {
  // A tensor, and an index of each dimension without its constant, and these.
  using Place = std::pair<std::vector<const void *>, std::vector<int64_t>>;
  std::map<Place, llvm::SmallDenseSet<const LoopNest *, 2>> readers;
  for (const LoopNest *nest : group.nests) {
    unsigned position = *nest->loopOfShared(block.dims.back());
    for (const analysis::Read &read : nest->reads.reads)
      for (int64_t at = 0; at < positions; ++at) {
        Place place{{read.tensor.getAsOpaquePointer()}, {}};
        for (const analysis::SymbolicIndex &index : read.index) {
          auto [base, constant] = splitConstant(index.expr);
          place.first.push_back(base.getAsOpaquePointer());
          place.second.push_back(constant +
                                 at * index.growth(position).value_or(0));
        }
        readers[place].insert(nest);
      }
  }
  return llvm::count_if(
      readers, [](const auto &entry) { return entry.second.size() > 1; });
}

/// How many positions share loads: as many as registers have room for.
static int64_t positionsOf(const NestGroup &group, const SharedLoop &block,
                           const native::TargetInfo &target) {
  int64_t room = target.isa().vectorRegisters() - computingRegisters;
  int64_t positions = sharingPositions;
  while (positions > 1 && heldVectors(group, block, positions) > room)
    positions /= 2;
  return positions;
}

static void chooseSharedLoads(const KernelModel &model, NestGroup &group,
                              const native::TargetInfo &target) {
  for (int number = group.sharedLoops.size(); number-- > 0;) {
    if (number == group.laneLoop)
      continue;
    const SharedLoop &loop = group.sharedLoops[number];
    auto size = model.knownSize(group, loop);
    if ((size && *size < sharingPositions) ||
        sharedLoads(group, loop) < fewestShared)
      return;
    int64_t positions = positionsOf(group, loop, target);
    if (positions == 1)
      return;
    group.blockLoop = number;
    group.blockSize = positions;
    return;
  }
}

//===----------------------------------------------------------------------===//
// Interleaved stores
//===----------------------------------------------------------------------===//

std::optional<unsigned> interleavedLoop(const KernelModel &model,
                                        const NestGroup &group,
                                        unsigned laneLoop) {
  const SharedLoop &loop = group.sharedLoops[laneLoop];
  auto size = model.knownSize(group, loop);
  if (!onlyWritesPoints(group) || (size && *size < group.width) ||
      operationsOf(group) > sharingOperations)
    return std::nullopt;
  return loopBetweenStores(model, group, loop);
}

void chooseBlock(const KernelModel &model, NestGroup &group,
                 const native::TargetInfo &target) {
  if (!canRunInBlocks(model, group))
    return;
  if (auto loop = interleavedLoop(model, group, group.laneLoop)) {
    group.blockLoop = *loop;
    group.blockSize = *model.knownSize(group, group.sharedLoops[*loop]);
    group.interleavesStores = true;
    return;
  }
  int64_t operations = operationsOf(group);
  if (operations <= blockOperations)
    chooseTransposedLoads(model, group);
  else if (operations <= sharingOperations)
    chooseSharedLoads(model, group, target);
}

} // namespace kernels
} // namespace anabranch
