//===- StrideClass.cpp - how an access moves with a loop ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/StrideClass.h"

#include "kernels/emit/KernelFunction.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

StrideClass strideClassOf(const KernelModel &model, const analysis::Read &read,
                          unsigned loop) {
  auto type = cast<RankedTensorType>(read.tensor.getType());
  auto argument = dyn_cast<BlockArgument>(read.tensor);
  DenseI64ArrayAttr strides;
  if (argument)
    strides = argumentStrides(model.source, argument.getArgNumber());
  // The last dimension of more than one element has neighbours.
  int64_t unit = type.getRank() - 1;
  while (unit > 0 && type.getDimSize(unit) == 1)
    --unit;
  StrideClass found = StrideClass::Zero;
  for (auto [dim, index] : llvm::enumerate(read.index)) {
    auto growth = index.growth(loop);
    if (growth == 0 || type.getDimSize(dim) == 1)
      continue;
    bool neighbour =
        strides ? strides[dim] == 1 : static_cast<int64_t>(dim) == unit;
    if (strides && strides[dim] == 0)
      continue;
    bool near = growth && std::abs(*growth) <= widestStep;
    found = found == StrideClass::Zero && neighbour && near ? StrideClass::Unit
                                                            : StrideClass::Far;
  }
  return found;
}

StrideClass strideClassOf(const KernelModel &model, const LoopNest &nest,
                          const Destination &destination, unsigned loop) {
  const unsigned *dimension = llvm::find(nest.resultLoops, loop);
  if (dimension == nest.resultLoops.end())
    return StrideClass::Zero;
  int64_t position = dimension - nest.resultLoops.begin();
  return unitDimension(model.source, destination) == position
             ? StrideClass::Unit
             : StrideClass::Far;
}

/// The shared dimension whose elements lie between those along `lanes` in the
/// memory that is written, without gaps.
static std::optional<unsigned> dimensionBetween(const KernelModel &model,
                                                const LoopNest &nest,
                                                const Destination &destination,
                                                unsigned lanes) {
  auto dims = innermostDimensions(model.source, destination);
  if (!dims)
    return std::nullopt;
  int outer = nest.loops[nest.resultLoops[dims->outer]].shared;
  int inner = nest.loops[nest.resultLoops[dims->inner]].shared;
  if (outer != static_cast<int>(lanes) || inner < 0)
    return std::nullopt;
  return inner;
}

std::optional<unsigned> loopBetweenStores(const KernelModel &model,
                                          const NestGroup &group,
                                          const SharedLoop &loop) {
  std::optional<unsigned> between;
  for (const LoopNest *nest : group.nests)
    for (const Destination &destination : nest->destinations) {
      auto found =
          dimensionBetween(model, *nest, destination, loop.dims.back());
      if (!found || between.value_or(*found) != *found ||
          inPlaceArgument(model.source, destination.result))
        return std::nullopt;
      between = found;
    }
  if (!between)
    return std::nullopt;
  for (auto [number, shared] : llvm::enumerate(group.sharedLoops))
    if (shared.dims.size() == 1 && shared.dims[0] == *between) {
      auto size = model.knownSize(group, shared);
      return size && *size >= 2 && *size <= widestStep
                 ? std::optional<unsigned>(number)
                 : std::nullopt;
    }
  return std::nullopt;
}

} // namespace kernels
} // namespace anabranch
