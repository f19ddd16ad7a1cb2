//===- RowGroups.cpp - rows of a tile that share a right operand ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/gemm/RowGroups.h"

#include "kernels/operands/OperandReader.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The address at which the right operand of a row begins in the tile.
static Value placeOf(GemmContext &gemm, Value row) {
  gemm.tile.placeRow = row;
  OperandReader right(gemm, gemm.contraction.right);
  // The load is dead code, which LLVM removes.
  return right.findAddress(gemm.point(Value(),
                                      Lanes::uniform(gemm.tile.firstColumn),
                                      Lanes::uniform(gemm.lanes.index(0))));
}

/// Computes and checks the place of a gathered operand before the loops that
/// read there.
static void findPlace(GemmContext &gemm) {
  if (gemm.contraction.right.isGathered)
    placeOf(gemm, gemm.tile.placeRow);
}

/// Whether a group that began at `first` ends with `row`.
static Value endsGroup(GemmContext &gemm, int64_t most, Value row, Value first,
                       Value end) {
  LaneBuilder &lanes = gemm.lanes;
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) {
    return lanes.make<arith::CmpIOp>(predicate, a, b);
  };
  auto either = [&](Value a, Value b) {
    return lanes.make<arith::OrIOp>(a, b);
  };
  Value next = lanes.addIndex(row, lanes.index(1));
  Value last = lanes.subIndex(end, lanes.index(1));
  Value step = byteDistance(lanes, placeOf(gemm, row),
                            placeOf(gemm, lanes.minIndex(next, last)));
  Value ends = either(compare(arith::CmpIPredicate::eq, row, last),
                      compare(arith::CmpIPredicate::ne, step, lanes.i64(0)));
  if (!most)
    return ends;
  return either(ends, compare(arith::CmpIPredicate::eq,
                              lanes.subIndex(next, first), lanes.index(most)));
}

void forEachGroup(GemmContext &gemm, int64_t most, function_ref<void()> body) {
  if (!gemm.contraction.isGrouped) {
    findPlace(gemm);
    return body();
  }
  LaneBuilder &lanes = gemm.lanes;
  GemmContext::Tile whole = gemm.tile;
  // LLVM has no loop-carried index, so the loop carries it as i64.
  lanes.loop(whole.firstRow, whole.endRow, 1, lanes.toI64(whole.firstRow),
             [&](Value row, ValueRange carried) -> SmallVector<Value> {
               Value first = lanes.make<arith::IndexCastOp>(
                   lanes.builder.getIndexType(), carried[0]);
               Value ends = endsGroup(gemm, most, row, first, whole.endRow);
               Value next = lanes.addIndex(row, lanes.index(1));
               lanes.ifThen(ends, [&] {
                 gemm.tile.firstRow = gemm.tile.placeRow = first;
                 gemm.tile.endRow = next;
                 findPlace(gemm);
                 body();
               });
               return {lanes.make<arith::SelectOp>(ends, lanes.toI64(next),
                                                   carried[0])};
             });
  gemm.tile = whole;
}

} // namespace kernels
} // namespace anabranch
