//===- DepthOrder.cpp - depths in the order of their groups ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/weights/DepthOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

using utils::IteratorType;

namespace {

/// Reduces the second of two loops over the depths to a list of i32.
Value reduceDepths(
    OpBuilder &b, Location loc, ValueRange inputs, ArrayRef<AffineMap> reads,
    int64_t depths, int32_t start,
    llvm::function_ref<Value(OpBuilder &, ValueRange, Value, Value)> body) {
  Value empty = b.create<tensor::EmptyOp>(loc, depths, b.getI32Type());
  Value first = b.create<arith::ConstantOp>(loc, b.getI32IntegerAttr(start));
  Value filled = b.create<linalg::FillOp>(loc, first, empty).getResult(0);
  SmallVector<AffineMap> maps(reads);
  maps.push_back(AffineMap::get(2, 0, b.getAffineDimExpr(0)));
  return b
      .create<linalg::GenericOp>(
          loc, empty.getType(), inputs, filled, maps,
          ArrayRef{IteratorType::parallel, IteratorType::reduction},
          [&](OpBuilder &inner, Location at, ValueRange values) {
            auto position = [&](unsigned loop) -> Value {
              return inner.create<arith::IndexCastOp>(
                  at, inner.getI32Type(),
                  inner.create<linalg::IndexOp>(at, loop));
            };
            Value row = position(0), step = position(1);
            inner.create<linalg::YieldOp>(at, body(inner, values, row, step));
          })
      .getResult(0);
}

/// A list as i32.
Value narrowed(OpBuilder &b, Location loc, Value number) {
  unsigned width = number.getType().getIntOrFloatBitWidth();
  Type i32 = b.getI32Type();
  if (width == 32)
    return number;
  return width > 32 ? b.create<arith::TruncIOp>(loc, i32, number).getResult()
                    : b.create<arith::ExtSIOp>(loc, i32, number).getResult();
}

} // namespace

Value DepthOrder::depths(OpBuilder &b, Location loc) const {
  int64_t count = cast<RankedTensorType>(list.getType()).getDimSize(0);
  AffineMap ofRow = AffineMap::get(2, 0, b.getAffineDimExpr(0));
  AffineMap ofStep = AffineMap::get(2, 0, b.getAffineDimExpr(1));
  using Predicate = arith::CmpIPredicate;
  // How many depths before this one are of the same group.
  Value before = reduceDepths(
      b, loc, {list, list}, {ofRow, ofStep}, count, 0,
      [&](OpBuilder &inner, ValueRange values, Value row, Value step) {
        Value same = inner.create<arith::CmpIOp>(loc, Predicate::eq, values[0],
                                                 values[1]);
        Value isBefore =
            inner.create<arith::CmpIOp>(loc, Predicate::slt, step, row);
        Value counts = inner.create<arith::ExtUIOp>(
            loc, inner.getI32Type(),
            inner.create<arith::AndIOp>(loc, same, isBefore));
        return inner.create<arith::AddIOp>(loc, values[2], counts);
      });
  return reduceDepths(
      b, loc, {list, before}, {ofStep, ofStep}, count, -1,
      [&](OpBuilder &inner, ValueRange values, Value row, Value step) {
        auto number = [&](int64_t value) -> Value {
          return inner.create<arith::ConstantOp>(
              loc, inner.getI32IntegerAttr(static_cast<int32_t>(value)));
        };
        Value start = inner.create<arith::MulIOp>(
            loc, narrowed(inner, loc, values[0]), number(group));
        Value place = inner.create<arith::AddIOp>(loc, start, values[1]);
        Value isPlace =
            inner.create<arith::CmpIOp>(loc, Predicate::eq, place, row);
        Value depth =
            inner.create<arith::SelectOp>(loc, isPlace, step, number(-1));
        return inner.create<arith::MaxSIOp>(loc, values[2], depth);
      });
}

Value inOrder(OpBuilder &b, Location loc, Value tensor, unsigned dimension,
              Value depths) {
  auto type = cast<RankedTensorType>(tensor.getType());
  unsigned rank = type.getRank();
  Value empty = b.create<tensor::EmptyOp>(
      loc, tensor::getMixedSizes(b, loc, tensor), type.getElementType());
  SmallVector<AffineMap> maps = {
      AffineMap::get(rank, 0, b.getAffineDimExpr(dimension)),
      b.getMultiDimIdentityMap(rank)};
  return b
      .create<linalg::GenericOp>(
          loc, type, depths, empty, maps,
          SmallVector<IteratorType>(rank, IteratorType::parallel),
          [&](OpBuilder &inner, Location at, ValueRange values) {
            SmallVector<Value> position;
            for (unsigned i = 0; i < rank; ++i)
              position.push_back(inner.create<linalg::IndexOp>(at, i));
            position[dimension] = inner.create<arith::IndexCastUIOp>(
                at, inner.getIndexType(), values[0]);
            inner.create<linalg::YieldOp>(
                at,
                Value(inner.create<tensor::ExtractOp>(at, tensor, position)));
          })
      .getResult(0);
}

} // namespace schedule
} // namespace anabranch
