//===- LoopContext.cpp - what the emitters of a group share ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/groups/LoopContext.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

LoopContext::LoopContext(const KernelModel &model, const NestGroup &group,
                         Evaluator &evaluator)
    : model(model), group(group), evaluator(evaluator),
      function(evaluator.function), lanes(evaluator.lanes) {}

void LoopContext::setShared(const SharedLoop &loop, Lanes index) {
  // Of dimensions that run as one, the last one has the index, which then
  // exceeds its own size.
  for (unsigned dim : loop.dims)
    sharedIndex[dim] = lanes.indexLanes(0);
  sharedIndex[loop.dims.back()] = index;
}

Point LoopContext::pointOf(const LoopNest &nest) const {
  Point point;
  for (const LoopNest::Loop &loop : nest.loops)
    point.push_back(loop.shared < 0 ? lanes.indexLanes(0)
                                    : sharedIndex[loop.shared]);
  return point;
}

Value LoopContext::tripCount(const FusedNests &nests,
                             const FusedLoop &loop) const {
  Value count = lanes.index(1);
  for (unsigned part : loop.loops[0]) {
    analysis::DimOf size = nests.members[0]->loops[part].size;
    count = lanes.mulIndex(count, function.dim(size.tensor, size.dimension));
  }
  return count;
}

} // namespace kernels
} // namespace anabranch
