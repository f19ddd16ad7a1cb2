//===- GroupSums.cpp - sums that a weight's scales multiply ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/tileblocks/GroupSums.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

int64_t GroupSums::elements(const GemmContext &gemm) {
  const ProductLayout &layout = gemm.layout;
  return layout.steps.multipliesIntegers() ? 2 * layout.tiling.blockElements()
                                           : 0;
}

GroupSums::GroupSums(GemmContext &gemm, const QuantizedOperand &weight,
                     LeftOperand &left, Value memory)
    : gemm(gemm), lanes(gemm.lanes), left(left), weight(gemm, weight),
      group(gemm.lanes.index(weight.layout.group)), memory(memory) {}

Value GroupSums::at(Value number) {
  Value turn = lanes.remIndex(number, lanes.index(2));
  return gemm.memory.pointerTo(
      memory,
      lanes.mulIndex(turn, lanes.index(gemm.layout.tiling.blockElements())));
}

void GroupSums::clearResults(const Block &block) {
  Value end =
      lanes.mulIndex(block.rowCount, lanes.index(gemm.layout.tiling.columns()));
  lanes.loop(lanes.index(0), end, gemm.layout.tiling.lanes, [&](Value at) {
    gemm.memory.store(gemm.memory.zeroVector(), block.results, at);
  });
}

void GroupSums::scale(const Block &block, Value number) {
  int64_t width = gemm.layout.tiling.lanes;
  Value depth = lanes.addIndex(
      block.first,
      lanes.mulIndex(number, lanes.index(gemm.layout.steps.scaledDepth)));
  SmallVector<WeightIntegers::Parameters> columns;
  for (int64_t j = 0; j < gemm.layout.tiling.vectors; ++j)
    columns.push_back(weight.parameters(lanes.divIndex(depth, group),
                                        weight.columnAt(j * width)));
  Value sums = at(number);
  lanes.loop(lanes.index(0), block.rowCount, 1, [&](Value row) {
    Value line = lanes.mulIndex(row, lanes.index(gemm.layout.tiling.columns()));
    Value elements;
    if (columns[0].offset)
      elements = left.sumOf(lanes.addIndex(block.row, row), number);
    for (auto [j, factors] : llvm::enumerate(columns)) {
      Value offset = lanes.addIndex(line, lanes.index(int64_t(j) * width));
      auto add = [&](Value a, Value b, Value to) -> Value {
        return lanes.builder.create<vector::FMAOp>(lanes.loc, a, b, to);
      };
      Value result = gemm.memory.loadVector(block.results, offset);
      Value sum = gemm.memory.loadVector(sums, offset);
      result = factors.scale ? add(sum, factors.scale, result)
                             : lanes.make<arith::AddFOp>(sum, result);
      if (elements)
        result = add(elements, factors.offset, result);
      gemm.memory.store(result, block.results, offset);
    }
  });
}

} // namespace kernels
} // namespace anabranch
