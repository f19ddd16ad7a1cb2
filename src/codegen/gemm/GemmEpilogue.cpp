//===- GemmEpilogue.cpp - what follows a product's sums -------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/GemmEpilogue.h"

#include "codegen/operands/OperandReader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

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
  int64_t width = gemm.blocking.lanes;
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

/// Evaluates a vector of a row, which has a position in each of its loops.
/// `sums` is the address of the row's sums.
void GemmEpilogue::emitVector(ArrayRef<Value> row, Value column, Value sums,
                              Value offset) {
  int64_t width = gemm.blocking.lanes;
  Evaluator &evaluator = *gemm.evaluator;
  linalg::GenericOp op = gemm.contraction.op;
  LaneBuilder::MaskGuard guard(lanes, width, gemm.columnMask(column, width));
  SmallVector<Lanes> position =
      gemm.point(row, Lanes::linear(column, 1, width), Lanes());
  SmallVector<Lanes> index =
      evaluator.apply(op.getIndexingMapsArray()[2], position);
  Value sum = gemm.memory.loadVector(sums, offset);
  if (gemm.blocking.hasParts())
    sum = withoutParts(sum, row, column);
  sum = addInitial(sum, index);
  evaluator.bind(op.getResult(0),
                 [sum](ArrayRef<Lanes>) { return Lanes::varying(sum); });
  for (const Epilogue &epilogue : gemm.contraction.epilogues)
    epilogue.emit(evaluator, index);
}

/// Calls `body` for the rows of the product, with the number that the blocks
/// use for each. The outer loops of rows are found once for all rows along the
/// last one.
void GemmEpilogue::forEachRow(Value first, Value end, RowBody body) {
  const auto &patch = gemm.blocking.patch;
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
  int64_t columns = gemm.blocking.columns();
  Value panelColumns = lanes.index(columns);
  Value firstColumn = gemm.tile.firstColumn;
  auto known = gemm.contraction.knownSize(gemm.contraction.column);
  Value width = panelColumns;
  // A row of an AMX block has one or two vectors. Without a loop, their stores
  // follow each other.
  bool unrolls = gemm.blocking.usesAmx && known && *known % columns == 0;
  if (!known || *known % columns != 0)
    width = lanes.minIndex(lanes.subIndex(gemm.columnCount, firstColumn),
                           panelColumns);
  forEachRow(row, endRow, [&](ArrayRef<Value> position, Value number) {
    Value at = lanes.mulIndex(lanes.subIndex(number, row), panelColumns);
    auto emitAt = [&](Value offset) {
      emitVector(position, lanes.addIndex(firstColumn, offset), sums,
                 lanes.addIndex(at, offset));
    };
    if (!unrolls)
      return lanes.loop(lanes.index(0), width, gemm.blocking.lanes, emitAt);
    for (int64_t offset = 0; offset < columns; offset += gemm.blocking.lanes)
      emitAt(lanes.index(offset));
  });
}

} // namespace codegen
} // namespace anabranch
