//===- UnpackedPanel.cpp - a panel of a weight of few bits ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/UnpackedPanel.h"

#include "kernels/emit/Memory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

UnpackedPanel::UnpackedPanel(GemmContext &gemm, const QuantizedOperand &weight,
                             Value panel)
    : gemm(gemm), lanes(gemm.lanes), weight(weight), panel(panel),
      integers(gemm, weight),
      floats(lanes, lanes.builder.getF32Type(), gemm.layout.tiling.lanes) {}

void UnpackedPanel::fill(Value first, Value end) {
  firstDepth = first;
  endDepth = end;
  Value depths = lanes.index(weight.layout.stepDepths());
  Value firstStep = lanes.divIndex(first, depths);
  Value endStep = lanes.divIndex(end, depths);
  lanes.loop(firstStep, endStep, 1,
             [&](Value step) { fillStep(step, /*whole=*/true); });
  if (gemm.depthIsMultipleOf(weight.layout.stepDepths()))
    return;
  Value hasRest = lanes.make<arith::CmpIOp>(
      arith::CmpIPredicate::ult, lanes.mulIndex(endStep, depths), end);
  lanes.ifThen(hasRest, [&] { fillStep(endStep, /*whole=*/false); });
}

/// Fills the depths whose integers share four bytes of a column.
void UnpackedPanel::fillStep(Value step, bool whole) {
  for (int64_t place = 0; place < gemm.layout.tiling.columns();
       place += gemm.layout.tiling.lanes)
    fillVector(step, {integers.columnAt(place), place}, whole);
}

void UnpackedPanel::fillVector(Value step, const Columns &columns, bool whole) {
  int64_t depths = weight.layout.stepDepths(), kPack = gemm.layout.word.kPack;
  Value bytes = integers.load(step, columns.first);
  Value first = lanes.mulIndex(step, lanes.index(depths));
  WeightIntegers::Parameters factors = integers.parameters(
      lanes.divIndex(first, lanes.index(weight.layout.group)), columns.first);
  if (whole && kPack == 2 && !factors.scale && !factors.offset &&
      integers.makesPairs()) {
    std::array<Value, 2> pairs = integers.pairsOf(bytes);
    ArrayRef<Value> words(pairs);
    int64_t side = wordsAtOnce();
    for (int64_t i = 0; i < CodePairs::depths / kPack; i += side)
      store(lanes.addIndex(first, lanes.index(i * kPack)), columns,
            words.slice(i, side));
    return;
  }
  int64_t atOnce = kPack * wordsAtOnce();
  for (int64_t depth = 0; depth < depths; depth += atOnce) {
    SmallVector<Value> numbers;
    for (int64_t i = 0; i < atOnce; ++i)
      numbers.push_back(number(bytes, depth + i, factors));
    storeNumbers(lanes.addIndex(first, lanes.index(depth)), columns, numbers,
                 whole);
  }
}

int64_t UnpackedPanel::wordsAtOnce() const {
  return gemm.layout.word.product.isMatrix ? MatrixBlock::words : 1;
}

void UnpackedPanel::store(Value depth, const Columns &columns,
                          ArrayRef<Value> words) {
  Value row = gemm.words(lanes.subIndex(depth, firstDepth));
  Value at = lanes.mulIndex(row, lanes.index(gemm.layout.tiling.columns()));
  auto side = static_cast<int64_t>(words.size());
  at = lanes.addIndex(at, lanes.index(columns.place * side));
  if (side == 1)
    return floats.store(words[0], panel, at);
  int64_t width = gemm.layout.tiling.lanes;
  for (int64_t from : {int64_t(0), width / 2})
    floats.store(
        lanes.make<vector::ShuffleOp>(
            words[0], words[1],
            ArrayRef<int64_t>{from, width + from, from + 1, width + from + 1}),
        panel, lanes.addIndex(at, lanes.index(from * side)));
}

/// The numbers of one depth.
Value UnpackedPanel::number(Value bytes, int64_t depth,
                            const WeightIntegers::Parameters &factors) {
  Value value = integers.number(bytes, depth);
  if (!factors.offset && !factors.scale)
    return value;
  if (!factors.offset)
    return lanes.make<arith::MulFOp>(value, factors.scale);
  if (!factors.scale)
    return lanes.make<arith::AddFOp>(value, factors.offset);
  return lanes.builder.create<vector::FMAOp>(lanes.loc, value, factors.scale,
                                             factors.offset);
}

/// Packs numbers of two depths as pairs of bf16.
static Value makePairs(LaneBuilder &lanes, ArrayRef<Value> numbers, Type type) {
  OpBuilder &b = lanes.builder;
  int64_t width = cast<VectorType>(type).getNumElements();
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < width; ++i)
    order.append({i, i + width});
  Value halves;
  if (Value narrow =
          lanes.isa.roundToBF16(b, lanes.loc, numbers[0], numbers[1])) {
    halves = lanes.make<LLVM::BitcastOp>(
        Type(VectorType::get({2 * width}, b.getI16Type())), narrow);
    halves = lanes.make<vector::ShuffleOp>(halves, halves, order);
  } else {
    auto bits = VectorType::get({width}, b.getI16Type());
    Value low = lanes.make<arith::BitcastOp>(Type(bits),
                                             truncateToBF16(lanes, numbers[0]));
    Value high = lanes.make<arith::BitcastOp>(
        Type(bits), truncateToBF16(lanes, numbers[1]));
    halves = lanes.make<vector::ShuffleOp>(low, high, order);
  }
  return lanes.make<LLVM::BitcastOp>(type, halves);
}

void UnpackedPanel::storeNumbers(Value depth, const Columns &columns,
                                 ArrayRef<Value> numbers, bool whole) {
  auto exists = [&](Value at) {
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ult, at, endDepth);
  };
  auto storeKnown = [&] {
    SmallVector<Value> known(numbers);
    for (size_t i = 1; !whole && i < known.size(); ++i) {
      Value isThere = exists(lanes.addIndex(depth, lanes.index(i)));
      known[i] =
          lanes.make<arith::SelectOp>(isThere, known[i], floats.zeroVector());
    }
    SmallVector<Value> words;
    size_t kPack = gemm.layout.word.kPack;
    for (size_t i = 0; i < known.size(); i += kPack)
      words.push_back(kPack == 1
                          ? known[i]
                          : makePairs(lanes, ArrayRef(known).slice(i, kPack),
                                      floats.vectorType()));
    store(depth, columns, words);
  };
  if (whole)
    return storeKnown();
  lanes.ifThen(exists(depth), storeKnown);
}

} // namespace kernels
} // namespace anabranch
