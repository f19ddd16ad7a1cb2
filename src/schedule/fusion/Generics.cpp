//===- Generics.cpp - lists and copies of linalg.generic ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/fusion/Generics.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

SmallVector<linalg::GenericOp> genericsOf(func::FuncOp main) {
  return llvm::to_vector(main.getBody().front().getOps<linalg::GenericOp>());
}

void replaceOperand(linalg::GenericOp op, unsigned operand, Value value,
                    ArrayRef<unsigned> loops) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  maps[operand] = AffineMap::getMultiDimMapWithTargets(op.getNumLoops(), loops,
                                                       op.getContext());
  op.setIndexingMapsAttr(Builder(op.getContext()).getAffineMapArrayAttr(maps));
  op->setOperand(operand, value);
}

linalg::GenericOp permuted(OpBuilder &b, Value tensor, ArrayRef<unsigned> order,
                           ArrayRef<OpFoldResult> sizes) {
  Location loc = tensor.getLoc();
  Value empty = b.create<tensor::EmptyOp>(
      loc, sizes, getElementTypeOrSelf(tensor.getType()));
  SmallVector<AffineMap> maps = {
      AffineMap::getPermutationMap(order, b.getContext()),
      b.getMultiDimIdentityMap(order.size())};
  SmallVector<utils::IteratorType> loops(order.size(),
                                         utils::IteratorType::parallel);
  return b.create<linalg::GenericOp>(
      loc, empty.getType(), tensor, empty, maps, loops,
      [](OpBuilder &inner, Location at, ValueRange values) {
        inner.create<linalg::YieldOp>(at, values[0]);
      });
}

} // namespace schedule
} // namespace anabranch
