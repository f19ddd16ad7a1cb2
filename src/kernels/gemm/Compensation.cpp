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
  int64_t width = gemm.layout.tiling.lanes * gemm.layout.word.kPack;
  Value zero = gemm.memory.zeroVector();
  bool whole = gemm.depthIsMultipleOf(width);
  Value rows = lanes.subIndex(gemm.tile.endRow, gemm.tile.firstRow);
  lanes.loop(lanes.index(0), rows, 1, [&](Value row) {
    SmallVector<Value> excess =
        lanes.loop(lanes.index(0), gemm.depthCount, width, {zero},
                   [&](Value k, ValueRange carried) -> SmallVector<Value> {
                     Value words = left.words(row, k, gemm.depthCount, whole);
                     return {gemm.layout.word.product.int8->addExcess(
                         lanes, carried[0], words)};
                   });
    Value none = gemm.memory.zeroScalar();
    Value number = lanes.make<arith::SubIOp>(none, sumLanes(lanes, excess[0]));
    gemm.memory.store(number, memory, row);
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
