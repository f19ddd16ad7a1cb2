//===- StrideClass.cpp - how an access moves with a loop ------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/nests/StrideClass.h"

#include "codegen/emit/KernelFunction.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

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

} // namespace codegen
} // namespace anabranch
