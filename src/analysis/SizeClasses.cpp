//===- SizeClasses.cpp - dimensions of the same size ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "analysis/SizeClasses.h"

#include "ir/Anabranch.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;

namespace anabranch {
namespace analysis {

SizeClasses::SizeClasses(func::FuncOp source) {
  // All operands of a structured operation that share a loop have one size
  // along it.
  source.walk([&](linalg::LinalgOp op) {
    SmallVector<std::optional<unsigned>> loops(op.getNumLoops());
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isa<RankedTensorType>(operand.get().getType()))
        continue;
      AffineMap map = op.getMatchingIndexingMap(&operand);
      for (auto [position, expr] : llvm::enumerate(map.getResults())) {
        auto dim = dyn_cast<AffineDimExpr>(expr);
        if (!dim)
          continue;
        unsigned number =
            numberOf({operand.get(), static_cast<int64_t>(position)});
        auto &loop = loops[dim.getPosition()];
        if (loop)
          unite(*loop, number);
        loop = number;
      }
    }
  });
}

unsigned SizeClasses::number(const void *key, int64_t detail) {
  auto [found, isNew] = numbers.try_emplace({key, detail}, parent.size());
  if (isNew)
    parent.push_back(found->second);
  return found->second;
}

unsigned SizeClasses::root(unsigned number) {
  while (parent[number] != number)
    number = parent[number] = parent[parent[number]];
  return number;
}

void SizeClasses::unite(unsigned a, unsigned b) { parent[root(a)] = root(b); }

std::optional<int64_t> SizeClasses::known(DimOf dim) const {
  auto type = cast<RankedTensorType>(dim.tensor.getType());
  if (type.isDynamicDim(dim.dimension))
    return std::nullopt;
  return type.getDimSize(dim.dimension);
}

unsigned SizeClasses::numberOf(OpFoldResult size, const void *otherwise,
                               int64_t detail) {
  if (auto constant = getConstantIntValue(size))
    return number(nullptr, *constant);
  Value value = cast<Value>(size);
  if (auto dim = value.getDefiningOp<tensor::DimOp>())
    if (auto index = dim.getConstantIndex())
      return numberOf({dim.getSource(), *index});
  return value ? number(value.getAsOpaquePointer(), -1)
               : number(otherwise, detail);
}

unsigned SizeClasses::numberOf(DimOf dim) {
  if (auto size = known(dim))
    return number(nullptr, *size);
  const void *self = dim.tensor.getAsOpaquePointer();
  auto type = cast<RankedTensorType>(dim.tensor.getType());
  Operation *op = dim.tensor.getDefiningOp();
  if (!op)
    return number(self, dim.dimension);
  if (auto empty = dyn_cast<tensor::EmptyOp>(op))
    return numberOf(empty.getMixedSizes()[dim.dimension], self, dim.dimension);
  if (auto structured = dyn_cast<linalg::LinalgOp>(op)) {
    unsigned result = cast<OpResult>(dim.tensor).getResultNumber();
    return numberOf({structured.getDpsInits()[result], dim.dimension});
  }
  if (auto insert = dyn_cast<tensor::InsertSliceOp>(op))
    return numberOf({insert.getDest(), dim.dimension});
  if (auto cast = dyn_cast<tensor::CastOp>(op))
    return numberOf({cast.getSource(), dim.dimension});
  if (auto scan = dyn_cast<ir::ScanOp>(op))
    return numberOf({scan.getInput(), dim.dimension});
  if (auto scatter = dyn_cast<ir::ScatterOp>(op))
    return numberOf({scatter.getInit(), dim.dimension});
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op))
    return numberOf(
        OpFoldResult(
            expand.getOutputShape()[type.getDynamicDimIndex(dim.dimension)]),
        self, dim.dimension);
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    ReassociationIndices group =
        collapse.getReassociationIndices()[dim.dimension];
    if (group.size() == 1)
      return numberOf({collapse.getSrc(), group[0]});
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    llvm::SmallBitVector dropped = slice.getDroppedDims();
    int64_t kept = 0;
    for (auto [i, size] : llvm::enumerate(slice.getMixedSizes()))
      if (!dropped.test(i) && kept++ == dim.dimension)
        return numberOf(size, self, dim.dimension);
  }
  return number(self, dim.dimension);
}

unsigned SizeClasses::classOf(DimOf dim) { return root(numberOf(dim)); }

} // namespace analysis
} // namespace anabranch
