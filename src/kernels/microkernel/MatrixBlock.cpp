//===- MatrixBlock.cpp - blocks of sums in two by two matrices ------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/MatrixBlock.h"

#include "kernels/microkernel/WordProduct.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

SmallVector<Value> MatrixBlock::arrange(ValueRange sums) const {
  SmallVector<Value> matrices;
  for (int64_t pair = 0; pair < pairs(); ++pair)
    for (int64_t j = 0; j < vectors; ++j) {
      Value upper = sums[2 * pair * vectors + j];
      Value lower = rows == 1 ? upper : sums[(2 * pair + 1) * vectors + j];
      for (int64_t column : {0, 2}) {
        SmallVector<int64_t> order = {column, column + 1, lanes + column,
                                      lanes + column + 1};
        if (rightComesFirst)
          std::swap(order[1], order[2]);
        matrices.push_back(
            builder.make<vector::ShuffleOp>(upper, lower, order));
      }
    }
  return matrices;
}

SmallVector<Value> MatrixBlock::rowsOf(ValueRange matrices) const {
  SmallVector<Value> sums;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t j = 0; j < vectors; ++j) {
      int64_t first = row / 2 * 2 * vectors + 2 * j;
      int64_t from = rightComesFirst ? row % 2 : row % 2 * 2;
      int64_t next = from + (rightComesFirst ? 2 : 1);
      sums.push_back(builder.make<vector::ShuffleOp>(
          matrices[first], matrices[first + 1],
          ArrayRef<int64_t>{from, next, lanes + from, lanes + next}));
    }
  return sums;
}

/// Two words of each of two rows. One row is its own neighbour. LLVM would join
/// halves that are scalars by a load to a lane, which is slower.
Value MatrixBlock::leftPair(ArrayRef<Value> pointers, int64_t pair) const {
  OpBuilder &b = builder.builder;
  auto half = VectorType::get({words}, b.getF32Type());
  auto load = [&](int64_t row) -> Value {
    return b.create<LLVM::LoadOp>(builder.loc, half, pointers[row], wordBytes);
  };
  Value upper = load(2 * pair);
  Value lower = rows == 1 ? upper : load(2 * pair + 1);
  return builder.make<vector::ShuffleOp>(upper, lower,
                                         ArrayRef<int64_t>{0, 1, 2, 3});
}

/// Two words of each of two columns.
Value MatrixBlock::rightPair(Value right, int64_t pair) const {
  OpBuilder &b = builder.builder;
  auto at = static_cast<int32_t>(pair * lanes * wordBytes);
  Value pointer =
      b.create<LLVM::GEPOp>(builder.loc, right.getType(), b.getI8Type(), right,
                            ArrayRef<LLVM::GEPArg>{at});
  return b.create<LLVM::LoadOp>(
      builder.loc, VectorType::get({2}, b.getI64Type()), pointer, wordBytes);
}

Value MatrixBlock::multiply(Value sum, Value left, Value right) const {
  if (rightComesFirst)
    std::swap(left, right);
  return builder.isa.multiplyMatrices(builder.builder, builder.loc, product,
                                      sum, left, right);
}

/// The left operand stays in registers, and the right one passes by.
SmallVector<Value> MatrixBlock::add(ArrayRef<Value> pointers, Value right,
                                    ValueRange matrices) const {
  SmallVector<Value> left;
  for (int64_t pair = 0; pair < pairs(); ++pair)
    left.push_back(leftPair(pointers, pair));
  SmallVector<Value> next(matrices);
  for (int64_t column = 0; column < 2 * vectors; ++column) {
    Value words = rightPair(right, column);
    for (int64_t pair = 0; pair < pairs(); ++pair) {
      Value &sum = next[pair * 2 * vectors + column];
      sum = multiply(sum, left[pair], words);
    }
  }
  return next;
}

} // namespace kernels
} // namespace anabranch
