//===- UnpackedPanel.cpp - a panel of a weight of few bits ----------------===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#include "codegen/gemm/UnpackedPanel.h"

#include "codegen/emit/Memory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace codegen {

using ir::QuantizedWeight;

static constexpr int64_t wordsAhead = 1024;

UnpackedPanel::UnpackedPanel(GemmContext &gemm, const QuantizedOperand &weight,
                             Value panel)
    : gemm(gemm), lanes(gemm.lanes), weight(weight), panel(panel),
      words(lanes, lanes.builder.getI32Type(), gemm.blocking.lanes),
      floats(lanes, lanes.builder.getF32Type(), gemm.blocking.lanes) {}

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
  int64_t width = gemm.blocking.lanes;
  int64_t padded =
      QuantizedWeight::panels(weight.columns) * QuantizedWeight::panelColumns;
  for (int64_t place = 0; place < gemm.blocking.columns(); place += width) {
    Value column = lanes.addIndex(gemm.tile.firstColumn, lanes.index(place));
    // Vectors behind the last column are undefined. Nobody reads their sums.
    if (padded % gemm.blocking.columns() != 0)
      column = lanes.minIndex(column, lanes.index(padded - width));
    fillVector(step, {column, place}, whole);
  }
}

void UnpackedPanel::fillVector(Value step, const Columns &columns, bool whole) {
  Value bytes = load(step, columns.first);
  Parameters factors = parameters(step, columns.first);
  int64_t depths = weight.layout.stepDepths(), kPack = gemm.blocking.kPack;
  Value first = lanes.mulIndex(step, lanes.index(depths));
  for (int64_t depth = 0; depth < depths; depth += kPack) {
    SmallVector<Value> numbers;
    for (int64_t i = 0; i < kPack; ++i)
      numbers.push_back(number(bytes, depth + i, factors));
    storeWord(lanes.addIndex(first, lanes.index(depth)), columns, numbers,
              whole);
  }
}

/// The words of a vector of columns. Also prefetches words far ahead.
Value UnpackedPanel::load(Value step, Value column) {
  int64_t width = QuantizedWeight::panelColumns;
  Value packed = gemm.function.argument(weight.packed).pointer;
  int64_t panelWords = weight.layout.steps(weight.depths) * width;
  Value at = lanes.addIndex(
      lanes.mulIndex(lanes.divIndex(column, lanes.index(width)),
                     lanes.index(panelWords)),
      lanes.addIndex(lanes.mulIndex(step, lanes.index(width)),
                     lanes.remIndex(column, lanes.index(width))));
  lanes.builder.create<LLVM::Prefetch>(
      lanes.loc,
      words.pointerTo(packed, lanes.addIndex(at, lanes.index(wordsAhead))),
      /*rw=*/0, /*hint=*/3, /*cache=*/1);
  return words.loadVector(packed, at);
}

UnpackedPanel::Parameters UnpackedPanel::parameters(Value step, Value column) {
  Value width = lanes.index(QuantizedWeight::panelColumns);
  Value group = lanes.divIndex(
      lanes.mulIndex(step, lanes.index(weight.layout.stepDepths())),
      lanes.index(weight.layout.group));
  Value groups = lanes.index(weight.layout.groups(weight.depths));
  Value row = lanes.addIndex(
      lanes.mulIndex(lanes.divIndex(column, width), groups), group);
  Value at =
      lanes.addIndex(lanes.mulIndex(row, width), lanes.remIndex(column, width));
  auto load = [&](unsigned argument, Type element) {
    return floats.loadExtended(element,
                               gemm.function.argument(argument).pointer, at);
  };
  return {load(weight.scale, weight.scaleElement),
          weight.offset ? load(*weight.offset, weight.offsetElement) : Value()};
}

Value UnpackedPanel::splatBits(int64_t bits) {
  return lanes.constant(DenseElementsAttr::get(
      cast<ShapedType>(words.vectorType()), static_cast<int32_t>(bits)));
}

Value UnpackedPanel::splat(double number) {
  return lanes.constant(DenseElementsAttr::get(
      cast<ShapedType>(floats.vectorType()), static_cast<float>(number)));
}

/// The numbers of one depth. An integer below 2^23, put into the fraction of
/// the float 2^23, makes the float of their sum.
Value UnpackedPanel::number(Value bytes, int64_t depth,
                            const Parameters &parameters) {
  constexpr int64_t magicBits = 0x4b000000;
  constexpr double magic = 8388608;
  bool isNibble = weight.layout.bits == 4;
  int64_t shift = depth % 4 * 8 + (isNibble ? depth / 4 * 4 : 0);
  Value integer =
      shift ? lanes.make<arith::ShRUIOp>(bytes, splatBits(shift)) : bytes;
  integer = lanes.make<arith::AndIOp>(integer, splatBits(isNibble ? 15 : 255));
  integer = lanes.make<arith::OrIOp>(integer, splatBits(magicBits));
  Value value = lanes.make<LLVM::BitcastOp>(floats.vectorType(), integer);
  value = lanes.make<arith::SubFOp>(
      value, splat(magic + double(weight.layout.center)));
  if (!parameters.offset)
    return lanes.make<arith::MulFOp>(value, parameters.scale);
  return lanes.builder.create<vector::FMAOp>(lanes.loc, value, parameters.scale,
                                             parameters.offset);
}

/// Packs numbers of two depths as pairs of bf16.
static Value makePairs(LaneBuilder &lanes, bool hasInstruction,
                       ArrayRef<Value> numbers, Type type) {
  OpBuilder &b = lanes.builder;
  int64_t width = cast<VectorType>(type).getNumElements();
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < width; ++i)
    order.append({i, i + width});
  Value halves;
  if (hasInstruction) {
    auto both = VectorType::get({2 * width}, b.getBF16Type());
    Value narrow = b.create<LLVM::CallIntrinsicOp>(
                        lanes.loc, Type(both),
                        StringRef("llvm.x86.avx512bf16.cvtne2ps2bf16.512"),
                        ValueRange{numbers[1], numbers[0]})
                       .getResult(0);
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

void UnpackedPanel::storeWord(Value depth, const Columns &columns,
                              ArrayRef<Value> numbers, bool whole) {
  auto exists = [&](Value at) {
    return lanes.make<arith::CmpIOp>(arith::CmpIPredicate::ult, at, endDepth);
  };
  auto store = [&] {
    SmallVector<Value> known(numbers);
    for (size_t i = 1; !whole && i < known.size(); ++i) {
      Value isThere = exists(lanes.addIndex(depth, lanes.index(i)));
      known[i] =
          lanes.make<arith::SelectOp>(isThere, known[i], floats.zeroVector());
    }
    Value word = known.size() == 1
                     ? known[0]
                     : makePairs(lanes,
                                 gemm.function.target.avx512Bf16 &&
                                     gemm.blocking.lanes == 16,
                                 known, floats.vectorType());
    Value row = gemm.words(lanes.subIndex(depth, firstDepth));
    Value at = lanes.mulIndex(row, lanes.index(gemm.blocking.columns()));
    floats.store(word, panel, lanes.addIndex(at, lanes.index(columns.place)));
  };
  if (whole)
    return store();
  lanes.ifThen(exists(depth), store);
}

} // namespace codegen
} // namespace anabranch
