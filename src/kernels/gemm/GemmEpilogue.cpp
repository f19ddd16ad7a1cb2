//===- GemmEpilogue.cpp - what follows a product's sums -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/GemmEpilogue.h"

#include "kernels/operands/OperandReader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// Adds the initial value of the product to a sum.
Value GemmEpilogue::addInitial(Value sum, ArrayRef<Lanes> index) {
  const Contraction &contraction = gemm.contraction;
  if (contraction.startsAtZero)
    return sum;
  linalg::GenericOp op = contraction.op;
  Lanes initial = gemm.evaluator->evaluate(op.getDpsInits()[0], index);
  if (isa<FloatType>(contraction.element))
    return lanes.make<arith::AddFOp>(sum, lanes.vector(initial));
  return lanes.make<arith::AddIOp>(sum, lanes.vector(initial));
}

/// The sums, computed again from whole floats if one is no finite number
/// (FloatParts.h).
Value GemmEpilogue::withoutParts(Value sum, ArrayRef<Value> row, Value column) {
  int64_t width = gemm.layout.tiling.lanes;
  OperandReader left(gemm, gemm.contraction.left);
  OperandReader right(gemm, gemm.contraction.right);
  // The difference is NaN unless the sum is finite.
  Value zero = lanes.make<arith::SubFOp>(sum, sum);
  Value wrong =
      lanes.make<arith::CmpFOp>(arith::CmpFPredicate::UNO, zero, zero);
  if (lanes.mask)
    wrong = lanes.make<arith::AndIOp>(wrong, lanes.mask);
  Type bits = lanes.builder.getIntegerType(width);
  Value any = lanes.make<arith::CmpIOp>(
      arith::CmpIPredicate::ne, lanes.make<LLVM::BitcastOp>(bits, wrong),
      lanes.constant(lanes.builder.getIntegerAttr(bits, 0)));
  auto again = [&]() -> SmallVector<Value> {
    return lanes.loop(
        lanes.index(0), gemm.depthCount, 1, gemm.memory.zeroVector(),
        [&](Value depth, ValueRange total) -> SmallVector<Value> {
          Lanes at = Lanes::uniform(depth);
          Lanes columns = Lanes::linear(column, 1, width);
          Value a = lanes.vector(left.element(gemm.point(row, Lanes(), at)));
          Value b =
              lanes.vector(right.element(gemm.point(Value(), columns, at)));
          return {
              lanes.builder.create<vector::FMAOp>(lanes.loc, a, b, total[0])};
        });
  };
  return lanes.ifElse(any, sum.getType(), again,
                      [&] { return SmallVector<Value>{sum}; })[0];
}

/// Evaluates the elements of a row that `vector` names. The row has a position
/// in each of its loops. `sums` is the address of the row's sums.
void GemmEpilogue::emitVector(ArrayRef<Value> row, const Vector &vector,
                              Value sums) {
  Evaluator &evaluator = *gemm.evaluator;
  linalg::GenericOp op = gemm.contraction.op;
  Value mask = vector.isWhole
                   ? Value()
                   : gemm.columnMask(vector.column, gemm.layout.tiling.lanes);
  LaneBuilder::MaskGuard guard(lanes, vector.width, mask);
  SmallVector<Lanes> position =
      gemm.point(row, Lanes::linear(vector.column, 1, vector.width), Lanes());
  SmallVector<Lanes> index =
      evaluator.apply(op.getIndexingMapsArray()[2], position);
  Value sum = gemm.memory.ofWidth(vector.width).loadVector(sums, vector.offset);
  if (gemm.layout.steps.hasParts())
    sum = withoutParts(sum, row, vector.column);
  sum = addInitial(sum, index);
  evaluator.bind(op.getResult(0),
                 [sum](ArrayRef<Lanes>) { return Lanes::varying(sum); });
  for (const Epilogue &epilogue : gemm.contraction.epilogues)
    epilogue.emit(evaluator, index);
}

/// Evaluates the elements of a row from `sums` on, `width` of them: whole
/// vectors, then a rest. A rest of half a vector is a shorter one: the next row
/// may lie after it, and a masked store would delay a load from there.
void GemmEpilogue::emitRow(ArrayRef<Value> row, Value width, Value at,
                           Value sums) {
  int64_t length = gemm.layout.tiling.lanes;
  auto known = gemm.contraction.knownSize(gemm.contraction.column);
  auto emitAt = [&](Value offset, int64_t elements, bool isWhole) {
    Value column = lanes.addIndex(gemm.tile.firstColumn, offset);
    emitVector(row, {column, lanes.addIndex(at, offset), elements, isWhole},
               sums);
  };
  // A row of a tile block has one or two vectors. Without a loop, their stores
  // follow each other.
  int64_t columns = gemm.layout.tiling.columns();
  if (gemm.layout.usesTileRegisters() && known && *known % columns == 0) {
    for (int64_t i = 0; i < columns; i += length)
      emitAt(lanes.index(i), length, /*isWhole=*/true);
    return;
  }
  bool isEven = known && *known % length == 0;
  if (!known || isEven || gemm.layout.steps.hasParts())
    return lanes.loop(lanes.index(0), width, length,
                      [&](Value offset) { emitAt(offset, length, isEven); });
  Value whole = lanes.mulIndex(lanes.divIndex(width, lanes.index(length)),
                               lanes.index(length));
  lanes.loop(lanes.index(0), whole, length,
             [&](Value offset) { emitAt(offset, length, /*isWhole=*/true); });
  int64_t rest = *known % length;
  constexpr int64_t leastVector = 4;
  bool isVector = rest >= leastVector && llvm::isPowerOf2_64(rest);
  lanes.ifThen(
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ne, whole, width),
      [&] { emitAt(whole, isVector ? rest : length, isVector); });
}

/// Calls `body` for the rows of the product, with the number that the blocks
/// use for each. The outer loops of rows are found once for all rows along the
/// last one.
void GemmEpilogue::forEachRow(Value first, Value end, RowBody body) {
  const auto &patch = gemm.layout.left.patch;
  const GemmContext::Tile &tile = gemm.tile;
  ArrayRef<unsigned> loops = gemm.contraction.rows;
  // Rows of a patch of several columns have numbers of their own.
  bool hasNumbers = patch && loops.size() > 2;
  if (patch && !hasNumbers)
    end = lanes.minIndex(end, tile.endRow);
  // A product of a vector has one row and no loop of rows.
  if (loops.size() <= 1)
    return lanes.loop(first, end, 1, [&](Value row) {
      body(SmallVector<Value>(loops.size(), row), row);
    });
  Value size = gemm.loopSize(loops.back());
  Value distance = hasNumbers ? lanes.index(patch->columns) : size;
  Value origin = hasNumbers ? tile.firstRow : lanes.index(0);
  first = lanes.subIndex(first, origin);
  end = lanes.subIndex(end, origin);
  Value lines = lanes.ceilDivIndex(end, distance);
  Value firstLine = lanes.index(0);
  if (hasNumbers) {
    firstLine = lanes.divIndex(tile.firstRow, size);
    // The last tile of an image may have fewer rows of windows.
    Value count =
        lanes.divIndex(lanes.subIndex(tile.endRow, tile.firstRow), size);
    lines = lanes.minIndex(lines, count);
  }
  lanes.loop(lanes.divIndex(first, distance), lines, 1, [&](Value line) {
    Value start = lanes.mulIndex(line, distance);
    SmallVector<Value> position =
        gemm.delinearize(loops.drop_back(), lanes.addIndex(firstLine, line));
    position.push_back(Value());
    Value low = lanes.subIndex(lanes.maxIndex(first, start), start);
    Value high = lanes.minIndex(lanes.subIndex(end, start), size);
    Value numberOfFirst = lanes.addIndex(origin, start);
    lanes.loop(low, high, 1, [&](Value column) {
      position.back() = column;
      body(position, lanes.addIndex(numberOfFirst, column));
    });
  });
}

void GemmEpilogue::emit(Value row, Value endRow, Value sums) {
  int64_t columns = gemm.layout.tiling.columns();
  Value panelColumns = lanes.index(columns);
  Value firstColumn = gemm.tile.firstColumn;
  auto known = gemm.contraction.knownSize(gemm.contraction.column);
  Value width = panelColumns;
  if (known && *known < columns)
    width = lanes.index(*known);
  else if (!known || *known % columns != 0)
    width = lanes.minIndex(lanes.subIndex(gemm.columnCount, firstColumn),
                           panelColumns);
  forEachRow(row, endRow, [&](ArrayRef<Value> position, Value number) {
    Value at = lanes.mulIndex(lanes.subIndex(number, row), panelColumns);
    emitRow(position, width, at, sums);
  });
}

} // namespace kernels
} // namespace anabranch
