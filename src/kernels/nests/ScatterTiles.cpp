//===- ScatterTiles.cpp - how a scatter is cut into tiles -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/ScatterTiles.h"

#include "kernels/nests/ScatterDims.h"
#include "kernels/nests/StrideClass.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// So many positions of the outer loops keep the workers busy.
static constexpr int64_t enoughPositions = 16;

/// Loops from `first` on are no longer shared. They run inside the scatter.
static void runInside(NestGroup &group, LoopNest &nest, unsigned first) {
  llvm::erase_if(group.sharedLoops, [&](const SharedLoop &loop) {
    return *nest.loopOfShared(loop.dims.front()) >= first;
  });
  for (LoopNest::Loop &loop : llvm::drop_begin(nest.loops, first))
    loop.shared = -1;
}

bool chooseScatterTiles(const KernelModel &model, NestGroup &group) {
  LoopNest &nest = *group.nests.front();
  if (group.nests.size() != 1 || nest.kind != LoopNest::Kind::Scatter ||
      nest.destinations.empty())
    return false;
  unsigned serial = 0;
  while (serial < nest.loops.size() && nest.loops[serial].parallel)
    ++serial;
  if (serial == nest.loops.size())
    return true; // a tensor without dimensions
  int64_t positions = 1;
  for (const LoopNest::Loop &loop : ArrayRef(nest.loops).take_front(serial))
    positions *= model.sizes->known(loop.size).value_or(enoughPositions);
  if (positions >= enoughPositions) {
    runInside(group, nest, serial);
    return true;
  }
  if (updatesRows(cast<ir::ScatterOp>(nest.op), serial)) {
    runInside(group, nest, 0);
    group.rangedLoop = serial;
    return true;
  }
  for (auto [number, loop] : llvm::enumerate(group.sharedLoops)) {
    unsigned own = *nest.loopOfShared(loop.dims.back());
    group.lanesInside =
        llvm::all_of(nest.destinations, [&](const Destination &destination) {
          return strideClassOf(model, nest, destination, own) ==
                 StrideClass::Unit;
        });
    if (!group.lanesInside)
      continue;
    group.laneLoop = number;
    break;
  }
  return true;
}

Value updatesPerPosition(KernelFunction &function, const LoopNest &nest,
                         bool countRows) {
  LaneBuilder &lanes = function.lanes;
  auto scatter = cast<ir::ScatterOp>(nest.op);
  SmallVector<Value> shape = function.shape(scatter.getUpdates());
  auto along = updatedAlong(scatter);
  for (auto [loop, dim] : llvm::enumerate(along))
    if (dim && nest.loops[loop].shared >= 0)
      shape[*dim] = lanes.index(1);
  if (countRows && rowOf(scatter))
    shape.back() = lanes.index(1);
  Value count = lanes.index(1);
  for (Value size : shape)
    count = lanes.mulIndex(count, size);
  return count;
}

} // namespace kernels
} // namespace anabranch
