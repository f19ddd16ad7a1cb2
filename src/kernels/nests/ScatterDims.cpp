//===- ScatterDims.cpp - dimensions that a scatter keeps ------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/nests/ScatterDims.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The positions that the body yields, one for each dimension of the result.
static ValueRange positionOf(ir::ScatterOp scatter) {
  Block &body = scatter.getBody().front();
  return ValueRange(body.getTerminator()->getOperands()).drop_back();
}

/// Loops that run as one give a number that exceeds its dimension. That is an
/// index like others, but no number to compute with.
static bool isOnlyIndex(Value number) {
  return llvm::all_of(number.getUsers(), [](Operation *user) {
    return isa<tensor::ExtractOp, ir::YieldOp>(user);
  });
}

SmallVector<std::optional<unsigned>> updatedAlong(ir::ScatterOp scatter) {
  Block &body = scatter.getBody().front();
  SmallVector<std::optional<unsigned>> dims;
  for (Value index : positionOf(scatter)) {
    auto number = dyn_cast<BlockArgument>(index);
    dims.emplace_back();
    if (number && number.getOwner() == &body && isOnlyIndex(number) &&
        !llvm::is_contained(ArrayRef(dims).drop_back(),
                            std::optional(number.getArgNumber())))
      dims.back() = number.getArgNumber();
  }
  return dims;
}

static bool dependsOn(Value value, Value argument) {
  if (value == argument)
    return true;
  Operation *op = value.getDefiningOp();
  return op && llvm::any_of(op->getOperands(), [&](Value operand) {
           return dependsOn(operand, argument);
         });
}

std::optional<unsigned> rowOf(ir::ScatterOp scatter) {
  auto along = updatedAlong(scatter);
  unsigned rank =
      cast<RankedTensorType>(scatter.getUpdates().getType()).getRank();
  unsigned last = along.size() - 1;
  if (rank == 0 || along.empty() || along.back() != rank - 1 ||
      movesElsewhere(scatter, rank - 1, last))
    return std::nullopt;
  return last;
}

bool updatesRows(ir::ScatterOp scatter, unsigned target) {
  Block &body = scatter.getBody().front();
  Value position = positionOf(scatter)[target];
  for (auto [other, dim] : llvm::enumerate(updatedAlong(scatter)))
    if (dim && other != target && dependsOn(position, body.getArgument(*dim)))
      return false;
  return true;
}

bool movesElsewhere(ir::ScatterOp scatter, unsigned dim, unsigned target) {
  Value number = scatter.getBody().front().getArgument(dim);
  for (auto [at, index] : llvm::enumerate(positionOf(scatter)))
    if (at != target && dependsOn(index, number))
      return true;
  return false;
}

} // namespace kernels
} // namespace anabranch
