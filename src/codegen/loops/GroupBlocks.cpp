//===- GroupBlocks.cpp - rows in blocks, their reads turned ---------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/emit/Transpose.h"
#include "codegen/loops/GroupEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

/// `width` positions of the row in blocks, or as many as are left, for one
/// vector of lanes.
void GroupEmitter::emitBlock() {
  const Row &row = group.rows[group.blockRow];
  Lanes number = rowIndex[row.rows.back()];
  Value width = lanes.index(group.width);
  Value first = lanes.mulIndex(number.value, width);
  Value size = lanes.index(1);
  for (unsigned part : row.rows) {
    DimOf dim = group.rowSizes[part];
    size = lanes.mulIndex(size, frame.dim(dim.tensor, dim.dimension));
  }
  Value end = lanes.addIndex(first, width);
  auto one = [&] {
    lanes.loop(first, lanes.minIndex(end, size), 1, [&](Value position) {
      setRow(row, Lanes::uniform(position));
      emitRow();
    });
    return Values();
  };
  auto whole = [&] {
    emitTurned(first);
    return Values();
  };
  APInt known;
  if (lanes.mask) {
    one();
  } else if (matchPattern(size, m_ConstantInt(&known)) &&
             known.getSExtValue() % group.width == 0) {
    whole();
  } else {
    Value fits =
        lanes.make<arith::CmpIOp>(arith::CmpIPredicate::sle, end, size);
    lanes.ifElse(fits, TypeRange(), whole, one);
  }
  setRow(row, number);
}

namespace {
/// What a turned read gives at one position.
struct Held {
  Value tensor;
  SmallVector<Lanes> index;
  Lanes value;
};
} // namespace

void GroupEmitter::emitTurned(Value first) {
  const Row &row = group.rows[group.blockRow];
  setRow(row, Lanes::uniform(first));
  auto pointOf = [&](const TurnedRead &read) {
    return llvm::map_to_vector(read.rows,
                               [&](unsigned part) { return rowIndex[part]; });
  };
  SmallVector<SmallVector<Lanes>> columns;
  for (const TurnedRead &read : group.turned)
    columns.push_back(loadTransposed(lanes,
                                     frame.argument(read.tensor.getArgNumber()),
                                     pointOf(read), read.along));
  for (int64_t i = 0; i < group.width; ++i) {
    LaneBuilder::Scope scope(lanes);
    setRow(row, Lanes::uniform(lanes.addIndex(first, lanes.index(i))));
    SmallVector<Held> held;
    for (auto [read, values] : llvm::zip(group.turned, columns))
      held.push_back({read.tensor, pointOf(read), values[i]});
    for (const TurnedRead &read : group.turned) {
      Buffer buffer = frame.argument(read.tensor.getArgNumber());
      Value tensor = read.tensor;
      evaluator.bind(tensor, [this, buffer, tensor,
                              held](ArrayRef<Lanes> index) {
        for (const Held &entry : held)
          if (entry.tensor == tensor && ArrayRef<Lanes>(entry.index) == index)
            return entry.value;
        return load(lanes, buffer, index);
      });
    }
    emitRow();
  }
}

} // namespace codegen
} // namespace anabranch
