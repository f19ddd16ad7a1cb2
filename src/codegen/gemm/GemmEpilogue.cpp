//===- GemmEpilogue.cpp - what follows a product's sums -------------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/GemmEpilogue.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

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

/// Evaluates a vector of a row. `sums` is the address of the row's sums.
void GemmEpilogue::emitVector(Value row, Value column, Value sums,
                              Value offset) {
  int64_t width = gemm.blocking.lanes;
  Evaluator &evaluator = *gemm.evaluator;
  linalg::GenericOp op = gemm.contraction.op;
  LaneBuilder::MaskGuard guard(lanes, width, gemm.columnMask(column, width));
  SmallVector<Lanes> position =
      gemm.point(row, Lanes::linear(column, 1, width), Lanes());
  SmallVector<Lanes> index =
      evaluator.apply(op.getIndexingMapsArray()[2], position);
  Value sum = addInitial(gemm.memory.loadVector(sums, offset), index);
  evaluator.bind(op.getResult(0),
                 [sum](ArrayRef<Lanes>) { return Lanes::varying(sum); });
  for (const Epilogue &epilogue : gemm.contraction.epilogues)
    epilogue.emit(evaluator, index);
}

/// Calls `body` for the rows of the product, with the number that the blocks
/// use for each.
void GemmEpilogue::forEachRow(
    Value first, Value end, function_ref<void(Value row, Value number)> body) {
  const auto &patch = gemm.blocking.patch;
  lanes.loop(first, end, 1, [&](Value number) {
    if (!patch)
      return body(number, number);
    Value place = lanes.subIndex(number, gemm.tile.firstRow);
    Value columns = lanes.index(patch->columns);
    Value column = lanes.remIndex(place, columns);
    Value windows = lanes.index(patch->windowColumns);
    Value row = lanes.addIndex(
        gemm.tile.firstRow,
        lanes.addIndex(lanes.mulIndex(lanes.divIndex(place, columns), windows),
                       column));
    Value exists =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ult, column, windows);
    lanes.ifThen(exists, [&] { body(row, number); });
  });
}

void GemmEpilogue::emit(Value row, Value endRow, Value sums) {
  Value panelColumns = lanes.index(gemm.blocking.columns());
  Value firstColumn = gemm.tile.firstColumn;
  Value width = lanes.minIndex(lanes.subIndex(gemm.columnCount, firstColumn),
                               panelColumns);
  forEachRow(row, endRow, [&](Value current, Value number) {
    Value at = lanes.mulIndex(lanes.subIndex(number, row), panelColumns);
    lanes.loop(lanes.index(0), width, gemm.blocking.lanes, [&](Value offset) {
      emitVector(current, lanes.addIndex(firstColumn, offset), sums,
                 lanes.addIndex(at, offset));
    });
  });
}

} // namespace codegen
} // namespace anabranch
