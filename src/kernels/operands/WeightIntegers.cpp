//===- WeightIntegers.cpp - what a weight of few bits holds ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/operands/WeightIntegers.h"

#include "kernels/microkernel/FloatParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/bit.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

using ir::QuantizedWeight;

static constexpr int64_t wordsAhead = 1024;

WeightIntegers::WeightIntegers(GemmContext &gemm,
                               const QuantizedOperand &weight)
    : gemm(gemm), lanes(gemm.lanes), weight(weight),
      words(lanes, lanes.builder.getI32Type(), gemm.layout.tiling.lanes),
      floats(lanes, lanes.builder.getF32Type(), gemm.layout.tiling.lanes) {}

Value WeightIntegers::columnAt(int64_t place) {
  int64_t padded =
      QuantizedWeight::panels(weight.columns) * QuantizedWeight::panelColumns;
  Value column = lanes.addIndex(gemm.tile.firstColumn, lanes.index(place));
  if (padded % gemm.layout.tiling.columns() == 0)
    return column;
  return lanes.minIndex(column, lanes.index(padded - gemm.layout.tiling.lanes));
}

/// The word of a column for a step of depths.
Value WeightIntegers::placeOf(Value step, Value column) {
  int64_t width = QuantizedWeight::panelColumns;
  int64_t panelWords = weight.layout.steps(weight.depths) * width;
  return lanes.addIndex(
      lanes.mulIndex(lanes.divIndex(column, lanes.index(width)),
                     lanes.index(panelWords)),
      lanes.addIndex(lanes.mulIndex(step, lanes.index(width)),
                     lanes.remIndex(column, lanes.index(width))));
}

Value WeightIntegers::addressOf(Value step, Value column) {
  return words.pointerTo(packed(), placeOf(step, column));
}

Value WeightIntegers::load(Value step, Value column) {
  Value at = placeOf(step, column);
  lanes.builder.create<LLVM::Prefetch>(
      lanes.loc,
      words.pointerTo(packed(), lanes.addIndex(at, lanes.index(wordsAhead))),
      /*rw=*/0, /*hint=*/3, /*cache=*/1);
  return weight.layout.pairsColumns() ? loadPairs(at, column)
                                      : words.loadVector(packed(), at);
}

/// The bytes of four columns whose nibbles share bytes with four other ones, as
/// if they shared them with other depths.
Value WeightIntegers::loadPairs(Value place, Value column) {
  assert(gemm.layout.tiling.lanes == 4 && "a group has two vectors");
  constexpr int64_t low = 0x0f0f0f0f, nibbleBits = 4;
  Value inGroup =
      lanes.remIndex(column, lanes.index(QuantizedWeight::groupColumns));
  Value group = lanes.subIndex(place, inGroup);
  Value first = words.loadVector(packed(), group);
  Value second =
      words.loadVector(packed(), lanes.addIndex(group, lanes.index(4)));
  // The columns of a group are 0 and 4: the bits below their nibbles.
  Value shift = lanes.make<vector::BroadcastOp>(
      words.vectorType(),
      lanes.make<arith::IndexCastOp>(lanes.builder.getI32Type(), inGroup));
  auto nibbles = [&](ArrayRef<int64_t> order) {
    Value found = lanes.make<vector::ShuffleOp>(first, second, order);
    found = lanes.make<arith::ShRUIOp>(found, shift);
    return lanes.make<arith::AndIOp>(found, splatBits(low));
  };
  Value upper =
      lanes.make<arith::ShLIOp>(nibbles({1, 3, 5, 7}), splatBits(nibbleBits));
  return lanes.make<arith::OrIOp>(nibbles({0, 2, 4, 6}), upper);
}

/// The bits of a step's bytes below the integer of a depth.
int64_t WeightIntegers::shiftOf(int64_t depth) const {
  bool isNibble = weight.layout.bits == 4;
  return depth % 4 * 8 + (isNibble ? depth / 4 * 4 : 0);
}

bool WeightIntegers::makesPairs() const {
  return CodePairs::exist(lanes.isa, smallFloat(), gemm.layout.tiling.lanes);
}

std::array<Value, 2> WeightIntegers::pairsOf(Value bytes) {
  return CodePairs(lanes, smallFloat()).of(bytes);
}

/// The float whose bits are the byte of a depth. It is half of a pair, if
/// tables make these.
Value WeightIntegers::floatOfCode(Value bytes, int64_t depth) {
  if (makesPairs()) {
    constexpr int64_t halfBits = 16, upperHalf = -(1 << halfBits);
    Value pair =
        castBits(lanes, pairsOf(bytes)[depth / 2], lanes.builder.getI32Type());
    Value bits = depth % 2
                     ? lanes.make<arith::AndIOp>(pair, splatBits(upperHalf))
                     : lanes.make<arith::ShLIOp>(pair, splatBits(halfBits));
    return lanes.make<LLVM::BitcastOp>(floats.vectorType(), bits);
  }
  Value word =
      depth ? lanes.make<arith::ShRUIOp>(bytes, splatBits(shiftOf(depth)))
            : bytes;
  auto shaped = [&](Type element) -> Type {
    return cast<VectorType>(word.getType()).clone(element);
  };
  Value byte =
      lanes.make<arith::TruncIOp>(shaped(lanes.builder.getI8Type()), word);
  return lanes.make<arith::ExtFOp>(
      Type(floats.vectorType()),
      lanes.make<arith::BitcastOp>(shaped(smallFloat()), byte));
}

Value WeightIntegers::numberOfTable(Value position) {
  TypedMemory table(lanes, lanes.builder.getF32Type(),
                    QuantizedWeight::tableSize);
  Value numbers = table.loadVector(
      gemm.function.argument(*weight.table).pointer, lanes.index(0));
  return lanes.isa.lookupIn(lanes.builder, lanes.loc, numbers, position);
}

/// An integer below 2^23, put into the fraction of the float 2^23, makes the
/// float of their sum.
Value WeightIntegers::number(Value bytes, int64_t depth) {
  constexpr int64_t magicBits = 0x4b000000;
  constexpr double magic = 8388608;
  if (smallFloat())
    return floatOfCode(bytes, depth);
  int64_t mask = (1 << weight.layout.bits) - 1, shift = shiftOf(depth);
  Value integer =
      shift ? lanes.make<arith::ShRUIOp>(bytes, splatBits(shift)) : bytes;
  integer = lanes.make<arith::AndIOp>(integer, splatBits(mask));
  if (weight.table)
    return numberOfTable(integer);
  integer = lanes.make<arith::OrIOp>(integer, splatBits(magicBits));
  auto subtrahend = static_cast<float>(magic + double(weight.layout.center));
  return lanes.make<arith::SubFOp>(
      lanes.make<LLVM::BitcastOp>(floats.vectorType(), integer),
      lanes.constant(DenseElementsAttr::get(
          cast<ShapedType>(floats.vectorType()), subtrahend)));
}

/// A table has the bf16 of each nibble. Its index is the low five bits of a
/// half, so each nibble is in it twice.
Value WeightIntegers::nibblePairs(Value low, Value high, int64_t shift) {
  constexpr int64_t entries = 32, nibbles = 16, halfBits = 16;
  constexpr int64_t upperHalf = -(1 << halfBits);
  SmallVector<int16_t> table;
  for (int64_t i = 0; i < entries; ++i) {
    auto number = static_cast<float>(i % nibbles - weight.layout.center);
    table.push_back(
        static_cast<int16_t>(llvm::bit_cast<uint32_t>(number) >> halfBits));
  }
  if (shift)
    low = lanes.make<arith::ShRUIOp>(low, splatBits(shift));
  if (shift < halfBits)
    high = lanes.make<arith::ShLIOp>(high, splatBits(halfBits - shift));
  else if (shift > halfBits)
    high = lanes.make<arith::ShRUIOp>(high, splatBits(shift - halfBits));
  Value index = lanes.make<arith::OrIOp>(
      lanes.make<arith::AndIOp>(high, splatBits(upperHalf)),
      lanes.make<arith::AndIOp>(low, splatBits(~upperHalf)));
  auto halves = VectorType::get({entries}, lanes.builder.getI16Type());
  Value found = lanes.isa.lookup(
      lanes.builder, lanes.loc, DenseElementsAttr::get(halves, ArrayRef(table)),
      lanes.make<LLVM::BitcastOp>(Type(halves), index));
  return lanes.make<LLVM::BitcastOp>(floats.vectorType(), found);
}

Value WeightIntegers::pairs(Value low, Value high, int64_t depth) {
  Type halves = VectorType::get({2 * gemm.layout.tiling.lanes},
                                lanes.builder.getI16Type());
  if (weight.layout.bits == 4 && lanes.isa.hasLookup(halves))
    return nibblePairs(low, high, shiftOf(depth));
  return splitToParts(lanes, number(low, depth), number(high, depth), 1)[0];
}

WeightIntegers::Parameters WeightIntegers::parameters(Value group,
                                                      Value column) {
  Value width = lanes.index(QuantizedWeight::panelColumns);
  Value groups = lanes.index(weight.layout.groups(weight.depths));
  Value row = lanes.addIndex(
      lanes.mulIndex(lanes.divIndex(column, width), groups), group);
  Value at =
      lanes.addIndex(lanes.mulIndex(row, width), lanes.remIndex(column, width));
  auto load = [&](unsigned argument, Type element) {
    return floats.loadExtended(element,
                               gemm.function.argument(argument).pointer, at);
  };
  return {weight.scale ? load(*weight.scale, weight.scaleElement) : Value(),
          weight.offset ? load(*weight.offset, weight.offsetElement) : Value()};
}

Value WeightIntegers::splatBits(int64_t bits) {
  return lanes.constant(DenseElementsAttr::get(
      cast<ShapedType>(words.vectorType()), static_cast<int32_t>(bits)));
}

} // namespace kernels
} // namespace anabranch
