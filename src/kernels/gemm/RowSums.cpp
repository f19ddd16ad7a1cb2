//===- RowSums.cpp - few rows times rows of memory ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/RowSums.h"

#include "kernels/gemm/BlockMultiplier.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

int64_t RowSums::sumElements(const GemmContext &gemm) {
  return 2 * gemm.layout.tiling.blockElements();
}

/// As many as leave half of the registers to vectors.
int64_t RowSums::depthsAtOnce() const {
  constexpr int64_t most = 8;
  int64_t factors = lanes.isa.vectorRegisters() / 2;
  return std::clamp<int64_t>(factors / gemm.layout.tiling.rows, 1, most);
}

/// The columns of the tile.
Value RowSums::tileColumns() {
  return lanes.minIndex(
      lanes.index(gemm.layout.tiling.columns()),
      lanes.subIndex(gemm.columnCount, gemm.tile.firstColumn));
}

/// Calls `body` for the place of each vector of sums. The last one may have
/// lanes that are no columns.
void RowSums::forEachVector(llvm::function_ref<void(Value place)> body) {
  Value end = tileColumns();
  for (int64_t row = 0; row < gemm.layout.tiling.rows; ++row) {
    Value start = lanes.index(row * gemm.layout.tiling.columns());
    lanes.loop(lanes.index(0), end, gemm.layout.tiling.lanes,
               [&](Value at) { body(lanes.addIndex(start, at)); });
  }
}

void RowSums::clear(Value sums) {
  forEachVector([&](Value place) {
    gemm.memory.store(gemm.memory.zeroVector(), sums, place);
  });
}

Value RowSums::leftElement(int64_t row, Value depth) {
  Value number = lanes.addIndex(gemm.tile.firstRow, lanes.index(row));
  Value scalar = lanes.builder.create<LLVM::LoadOp>(
      lanes.loc, gemm.contraction.element, left.at(number, depth).pointer,
      gemm.memory.elementBytes());
  return lanes.make<vector::BroadcastOp>(gemm.memory.vectorType(), scalar);
}

/// Lanes outside of the mask are zero. A null mask has all.
Value RowSums::rightElements(Value column, Value depth, Value mask) {
  int64_t width = gemm.layout.tiling.lanes;
  LaneBuilder::MaskGuard guard(lanes, width, mask);
  return lanes.vector(right.element(gemm.point(
      Value(), Lanes::linear(column, 1, width), Lanes::uniform(depth))));
}

/// Adds the products of some depths to the sums of all columns.
void RowSums::addDepths(Value depth, int64_t count, Value sums) {
  const ProductLayout &layout = gemm.layout;
  WordProduct product = layout.word.product;
  SmallVector<Value> depths, factors;
  for (int64_t k = 0; k < count; ++k)
    depths.push_back(lanes.addIndex(depth, lanes.index(k)));
  for (int64_t row = 0; row < layout.tiling.rows; ++row)
    for (Value at : depths)
      factors.push_back(leftElement(row, at));
  auto addVector = [&](Value at, Value mask) {
    Value column = lanes.addIndex(gemm.tile.firstColumn, at);
    SmallVector<Value> elements;
    for (Value k : depths)
      elements.push_back(rightElements(column, k, mask));
    for (int64_t row = 0; row < layout.tiling.rows; ++row) {
      Value place =
          lanes.addIndex(lanes.index(row * layout.tiling.columns()), at);
      Value sum = gemm.memory.loadVector(sums, place);
      for (int64_t k = 0; k < count; ++k)
        sum =
            product.add(lanes, sum, {factors[row * count + k]}, {elements[k]});
      gemm.memory.store(sum, sums, place);
    }
  };
  Value columns = tileColumns(), width = lanes.index(layout.tiling.lanes);
  Value rest = lanes.remIndex(columns, width);
  Value whole = lanes.subIndex(columns, rest);
  lanes.loop(lanes.index(0), whole, layout.tiling.lanes,
             [&](Value at) { addVector(at, Value()); });
  if (*gemm.contraction.knownSize(gemm.contraction.column) %
          layout.tiling.lanes ==
      0)
    return;
  Value hasRest =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, rest, lanes.index(0));
  lanes.ifThen(hasRest, [&] {
    Value column = lanes.addIndex(gemm.tile.firstColumn, whole);
    addVector(whole, gemm.columnMask(column, layout.tiling.lanes));
  });
}

/// The sums of a part of the depth.
void RowSums::addPart(Value first, Value end, Value sums) {
  clear(sums);
  int64_t step = depthsAtOnce();
  Value count = lanes.subIndex(end, first);
  Value rest = lanes.subIndex(end, lanes.remIndex(count, lanes.index(step)));
  lanes.loop(first, rest, step,
             [&](Value depth) { addDepths(depth, step, sums); });
  lanes.loop(rest, end, 1, [&](Value depth) { addDepths(depth, 1, sums); });
}

void RowSums::multiply(Value sums) {
  int64_t depths = wordsOfPartialSum(gemm);
  if (!depths && gemm.isOneBlock())
    return addPart(lanes.index(0), gemm.depthCount, sums);
  // A depth that only a call knows may be long.
  if (!depths)
    depths = gemm.layout.tiling.depth;
  Value part = gemm.memory.pointerTo(
      sums, lanes.index(gemm.layout.tiling.blockElements()));
  clear(sums);
  lanes.loop(lanes.index(0), gemm.depthCount, depths, [&](Value first) {
    Value end = lanes.minIndex(lanes.addIndex(first, lanes.index(depths)),
                               gemm.depthCount);
    addPart(first, end, part);
    forEachVector([&](Value place) {
      Value sum =
          lanes.make<arith::AddFOp>(gemm.memory.loadVector(sums, place),
                                    gemm.memory.loadVector(part, place));
      gemm.memory.store(sum, sums, place);
    });
  });
}

} // namespace kernels
} // namespace anabranch
