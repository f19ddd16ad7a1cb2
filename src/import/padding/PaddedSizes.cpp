//===- PaddedSizes.cpp - which dimensions are padded ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/padding/PaddedSizes.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {

SizeLabel normalized(const SizeLabel &label) {
  SizeLabel made;
  for (int64_t factor : label) {
    if (factor == 1)
      continue;
    if (factor > 0 && !made.empty() && made.back() > 0)
      made.back() *= factor;
    else
      made.push_back(factor);
  }
  return made;
}

PaddedSizes::PaddedSizes(func::FuncOp main) {
  int64_t next = 0;
  for (BlockArgument argument : main.getArguments()) {
    const void *self = argument.getAsOpaquePointer();
    if (argument.getType().isIndex())
      labels[{self, -1}] = {--next};
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    for (int64_t dim = 0; type && dim < type.getRank(); ++dim)
      if (type.isDynamicDim(dim))
        labels[{self, dim}] = {--next};
  }
  for (auto expect : main.getOps<ir::ExpectOp>()) {
    std::optional<Key> key = keyOf(expect.getSize());
    if (!key)
      continue;
    if (Value same = expect.getSame()) {
      if (auto label = of(same))
        labels[*key] = *label;
    } else if (auto min = expect.getMin(); min && labels[*key].size() == 1) {
      minima[labels[*key].front()] = *min;
    }
  }
}

std::optional<PaddedSizes::Key> PaddedSizes::keyOf(Value size) const {
  if (isa<BlockArgument>(size))
    return Key(size.getAsOpaquePointer(), -1);
  auto dim = size.getDefiningOp<tensor::DimOp>();
  if (!dim || !isa<BlockArgument>(dim.getSource()) || !dim.getConstantIndex())
    return std::nullopt;
  return Key(dim.getSource().getAsOpaquePointer(), *dim.getConstantIndex());
}

SizeLabel PaddedSizes::ofArgument(BlockArgument argument, int64_t dim) const {
  auto type = cast<RankedTensorType>(argument.getType());
  if (type.isDynamicDim(dim))
    return labels.at({argument.getAsOpaquePointer(), dim});
  int64_t size = type.getDimSize(dim);
  return size == 1 ? SizeLabel() : SizeLabel{size};
}

std::optional<SizeLabel> PaddedSizes::of(OpFoldResult size) const {
  if (auto constant = getConstantIntValue(size))
    return *constant == 1 ? SizeLabel() : SizeLabel{*constant};
  Value value = cast<Value>(size);
  if (std::optional<Key> key = keyOf(value)) {
    auto found = labels.find(*key);
    if (found != labels.end())
      return found->second;
  }
  auto product = value.getDefiningOp<arith::MulIOp>();
  if (!product)
    return std::nullopt;
  auto left = of(product.getLhs()), right = of(product.getRhs());
  if (!left || !right)
    return std::nullopt;
  left->append(*right);
  return normalized(*left);
}

bool PaddedSizes::dependsOnSymbol(Value value) const {
  if (keyOf(value))
    return true;
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](Value operand) {
           return operand.getType().isIntOrIndexOrFloat() &&
                  dependsOnSymbol(operand);
         });
}

int64_t PaddedSizes::least(const SizeLabel &label) const {
  if (label.size() != 1)
    return 1;
  auto found = minima.find(label.front());
  return found == minima.end() ? 1 : found->second;
}

} // namespace anabranch
