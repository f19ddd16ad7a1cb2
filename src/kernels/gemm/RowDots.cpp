//===- RowDots.cpp - a product of few rows --------------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/RowDots.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// As many accumulators as registers hold beside the operands, for at most the
/// columns of a tile.
int64_t RowDots::columnsAtOnce() const {
  const Tiling &tiling = gemm.layout.tiling;
  int64_t most = tiling.lanes >= 8 && tiling.vectors == 4 ? 24 : 12;
  const auto &bytes = gemm.layout.word.product.int8;
  if (bytes && bytes->kind == Int8Dot::Kind::Widened)
    most /= 2;
  return std::clamp<int64_t>(most / tiling.rows, 1,
                             std::min<int64_t>(8, tiling.columns()));
}

/// Prefetches a line of a column of the right operand, if the operand has an
/// address.
void RowDots::fetch(Value column, Value depth) {
  Value last = lanes.subIndex(gemm.columnCount, lanes.index(1));
  LaneBuilder::MaskGuard guard(lanes, 1, Value());
  Lanes at = Lanes::uniform(lanes.minIndex(column, last));
  // The load is dead code, which LLVM removes.
  if (Value address =
          right.findAddress(gemm.point(Value(), at, Lanes::uniform(depth))))
    lanes.builder.create<LLVM::Prefetch>(lanes.loc, address, /*rw=*/0,
                                         /*hint=*/3, /*cache=*/1);
}

/// Adds one more vector of words to the partial sums of all rows and some
/// columns.
SmallVector<Value> RowDots::addDepths(Value column, Value depth, bool whole,
                                      ValueRange sums) {
  const ProductLayout &layout = gemm.layout;
  int64_t columns = columnsAtOnce();
  WordProduct product = layout.word.product;
  Value end = gemm.depthCount;
  SmallVector<WordProduct::Factor> factors;
  SmallVector<Value> next;
  Value last = lanes.subIndex(gemm.columnCount, lanes.index(1));
  for (int64_t j = 0; j < columns; ++j) {
    // Columns after the last one repeat it. Their sums are not read.
    Value at = lanes.minIndex(lanes.addIndex(column, lanes.index(j)), last);
    if (fetchesAhead && whole && gemm.contraction.right.memory)
      fetch(lanes.addIndex(column, lanes.index(2 * columns + j)), depth);
    Value words = right.words(Value(), at, depth, end, whole);
    factors.push_back(product.right(lanes, words));
  }
  for (int64_t i = 0; i < layout.tiling.rows; ++i) {
    Value words = left.words(lanes.index(i), depth, end, whole);
    WordProduct::Factor factor = product.left(lanes, words);
    for (int64_t j = 0; j < columns; ++j)
      next.push_back(
          product.add(lanes, sums[i * columns + j], factor, factors[j]));
  }
  return next;
}

/// Vectors of partial sums of all rows and some columns, from `column` on.
SmallVector<Value> RowDots::dots(Value column) {
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  Value rest = lanes.remIndex(gemm.depthCount, lanes.index(width));
  Value wholeEnd = lanes.subIndex(gemm.depthCount, rest);
  SmallVector<Value> zeros(gemm.layout.tiling.rows * columnsAtOnce(),
                           gemm.memory.zeroVector());
  SmallVector<Value> sums = lanes.loop(
      lanes.index(0), wholeEnd, width, zeros, [&](Value k, ValueRange carried) {
        return addDepths(column, k, /*whole=*/true, carried);
      });
  if (gemm.depthIsMultipleOf(width))
    return sums;
  Value hasRest =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, rest, lanes.index(0));
  SmallVector<Type> types(sums.size(), gemm.memory.vectorType());
  return lanes.ifElse(
      hasRest, types,
      [&] { return addDepths(column, wholeEnd, /*whole=*/false, sums); },
      [&] { return sums; });
}

void RowDots::multiply(Value sums) {
  int64_t columns = columnsAtOnce();
  int64_t panelColumns = gemm.layout.tiling.columns();
  lanes.loop(lanes.index(0), lanes.index(panelColumns), columns, [&](Value at) {
    // The last group of columns overlaps the one before it.
    Value group = lanes.minIndex(at, lanes.index(panelColumns - columns));
    Value column = lanes.addIndex(gemm.tile.firstColumn, group);
    for (auto [i, sum] : llvm::enumerate(dots(column))) {
      Value total = sumLanes(lanes, sum);
      int64_t row = i / columns, offset = row * panelColumns + i % columns;
      if (compensation.isNeeded())
        total = lanes.make<arith::AddIOp>(total,
                                          compensation.load(lanes.index(row)));
      gemm.memory.store(total, sums,
                        lanes.addIndex(group, lanes.index(offset)));
    }
  });
}

} // namespace kernels
} // namespace anabranch
