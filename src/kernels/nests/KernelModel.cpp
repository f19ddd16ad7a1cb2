//===- KernelModel.cpp - the loop nests of a kernel -----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/KernelModel.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

SmallVector<unsigned> LoopNest::innerLoops() const {
  SmallVector<unsigned> inner;
  for (unsigned i = 0; i < loops.size(); ++i)
    if (loops[i].shared < 0)
      inner.push_back(i);
  return inner;
}

std::optional<unsigned> LoopNest::loopOfShared(unsigned dim) const {
  for (unsigned i = 0; i < loops.size(); ++i)
    if (loops[i].shared == static_cast<int>(dim))
      return i;
  return std::nullopt;
}

LoopNest *KernelModel::nestOf(Value value) const {
  for (auto &nest : nests) {
    if (nest->kind == LoopNest::Kind::Write)
      continue;
    if (nest->value == value || (nest->op && value.getDefiningOp() == nest->op))
      return nest.get();
  }
  return nullptr;
}

std::optional<int64_t> KernelModel::knownSize(const NestGroup &group,
                                              const SharedLoop &loop) const {
  int64_t product = 1;
  for (unsigned part : loop.dims) {
    auto size = sizes->known(group.sharedSizes[part]);
    if (!size)
      return std::nullopt;
    product *= *size;
  }
  return product;
}

} // namespace kernels
} // namespace anabranch
