//===- Contract.cpp - sums of products ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/lowering/Contract.h"

#include "import/lowering/Shapes.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace importer {

DType accumulatorOf(DType dtype) {
  if (dtype.isInt() && dtype.width() < 32)
    return DType::integer(dtype.type.getContext(), 32);
  return dtype.math();
}

namespace {

/// An operand of a product, and where it is read.
struct Factor {
  Read read;
  DType dtype;
};

} // namespace

/// The dtype from which a body widens its only argument, if it does nothing
/// else.
static std::optional<DType> widenedFrom(Block &body) {
  Operation *op = body.getTerminator()->getOperand(0).getDefiningOp();
  if (!isa_and_nonnull<arith::ExtSIOp, arith::ExtUIOp>(op) ||
      op->getOperand(0) != body.getArgument(0))
    return std::nullopt;
  return DType{op->getOperand(0).getType(), isa<arith::ExtUIOp>(op)};
}

/// Looks through transposes and widenings: the product reads their operands and
/// stays the same.
static Factor withoutCopies(Factor factor) {
  Read &read = factor.read;
  while (auto generic = read.tensor.getDefiningOp<linalg::GenericOp>()) {
    if (generic.getNumDpsInputs() != 1 || generic.getNumResults() != 1)
      break;
    SmallVector<AffineMap> maps = generic.getIndexingMapsArray();
    Block *body = generic.getBody();
    if (!maps[0].isPermutation() || !maps[1].isIdentity())
      break;
    if (auto narrow = widenedFrom(*body))
      factor.dtype = *narrow;
    else if (body->getTerminator()->getOperand(0) != body->getArgument(0))
      break;
    read = {generic.getDpsInputOperand(0)->get(), maps[0].compose(read.map)};
  }
  return factor;
}

/// Loops that the result has are parallel; the others sum.
static SmallVector<utils::IteratorType> iteratorsOf(AffineMap result) {
  SmallVector<utils::IteratorType> iterators(result.getNumDims(),
                                             utils::IteratorType::reduction);
  for (AffineExpr expr : result.getResults())
    iterators[cast<AffineDimExpr>(expr).getPosition()] =
        utils::IteratorType::parallel;
  return iterators;
}

static bool hasNoElement(Value tensor) {
  return llvm::is_contained(cast<RankedTensorType>(tensor.getType()).getShape(),
                            0);
}

Value contract(OpBuilder &builder, Location loc, Read left, Read right,
               AffineMap result, ArrayRef<OpFoldResult> sizes, DType dtype,
               std::optional<DType> ofRight) {
  DType sum = accumulatorOf(dtype);
  Body outer{builder, loc};
  Value zero = s::constant(outer, sum, int64_t(0)).value;
  Value empty = builder.create<tensor::EmptyOp>(loc, sizes, sum.type);
  Value init = builder.create<linalg::FillOp>(loc, zero, empty).getResult(0);
  // An empty sum is zero.
  if (hasNoElement(left.tensor) || hasNoElement(right.tensor))
    return init;
  Factor first = withoutCopies({left, dtype});
  Factor second = withoutCopies({right, ofRight.value_or(dtype)});
  left = first.read;
  right = second.read;
  auto generic = builder.create<linalg::GenericOp>(
      loc, TypeRange{init.getType()}, ValueRange{left.tensor, right.tensor},
      ValueRange{init}, ArrayRef<AffineMap>{left.map, right.map, result},
      iteratorsOf(result),
      [&](OpBuilder &nested, Location at, ValueRange arguments) {
        Body body{nested, at};
        Num x = s::cast({&body, arguments[0], first.dtype}, sum);
        Num y = s::cast({&body, arguments[1], second.dtype}, sum);
        Num carried{&body, arguments[2], sum};
        nested.create<linalg::YieldOp>(at, (carried + x * y).value);
      });
  return generic.getResult(0);
}

} // namespace importer
} // namespace anabranch
