//===- Compensation.cpp - zero-point compensation of rows -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/Compensation.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

void Compensation::compute() {
  if (!isNeeded())
    return;
  Value rows = lanes.subIndex(gemm.tile.endRow, gemm.tile.firstRow);
  Value last = lanes.subIndex(rows, lanes.index(1));
  lanes.loop(lanes.index(0), rows, rowsAtOnce, [&](Value first) {
    SmallVector<Value> some;
    // Rows after the last one repeat it.
    for (int64_t i = 0; i < rowsAtOnce; ++i)
      some.push_back(
          lanes.minIndex(lanes.addIndex(first, lanes.index(i)), last));
    Value none = gemm.memory.zeroScalar();
    for (auto [row, excess] : llvm::zip_equal(some, excessOf(some)))
      gemm.memory.store(
          lanes.make<arith::SubIOp>(none, sumLanes(lanes, excess)), memory,
          row);
  });
}

SmallVector<Value> Compensation::excessOf(ArrayRef<Value> rows) {
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  bool whole = gemm.depthIsMultipleOf(width);
  SmallVector<Value> zeros(rows.size(), gemm.memory.zeroVector());
  return lanes.loop(lanes.index(0), gemm.depthCount, width, zeros,
                    [&](Value k, ValueRange carried) {
                      SmallVector<Value> sums;
                      for (auto [row, sum] : llvm::zip_equal(rows, carried)) {
                        Value words =
                            left.words(row, k, gemm.depthCount, whole);
                        sums.push_back(gemm.layout.word.product.int8->addExcess(
                            lanes, sum, words));
                      }
                      return sums;
                    });
}

Value Compensation::pointerTo(Value row) {
  return gemm.memory.pointerTo(memory, row);
}

Value Compensation::load(Value row) {
  return gemm.memory.loadScalar(memory, row);
}

} // namespace kernels
} // namespace anabranch
