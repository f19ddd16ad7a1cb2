//===- QuantizedMatrixKernel.cpp - quantised products of matrices ---------===//
// SPDX-License-Identifier: Apache-2.0
//
// The words of two steps are joined before their nibbles are parted, so that
// two columns lie side by side:
//
//   step s       c0 c1 c2 c3   ->  c0 c0' c1 c1'   low nibbles, high nibbles
//   step s + 1   c0'c1'c2'c3'      c2 c2' c3 c3'
//
// The words of a pair of digits are put in the order of the depths that such a
// matrix has.

#include "kernels/quantized/QuantizedMatrixKernel.h"

#include "kernels/emit/Memory.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

/// The depths of a word of bytes, and of the words that are loaded at once.
static constexpr int64_t wordDepths = 4;
static constexpr auto product = MatrixBlock::Product::MixedInt8;
static constexpr int64_t chunkDepths = MatrixBlock::lanes * wordDepths;
static_assert(ir::QuantizedWeight::depthMultiple % chunkDepths == 0);

int64_t QuantizedMatrixKernel::stepsAtOnce() const {
  return chunkDepths / context.weight.layout.stepDepths();
}

/// The last digit of an odd number is its own neighbour.
SmallVector<Value> QuantizedMatrixKernel::addSteps(LaneBuilder &lanes,
                                                   Value first, Value end,
                                                   ValueRange sums) {
  MatrixBlock block(lanes, product, /*rightComesFirst=*/true, 2 * pairs(),
                    blocking.vectors);
  SmallVector<Value> whole(sums);
  if (digitRows() % 2)
    llvm::append_range(whole, sums.take_back(blocking.vectors));
  SmallVector<Value> matrices =
      lanes.loop(first, end, stepsAtOnce(), block.arrange(whole),
                 [&](Value step, ValueRange carried) {
                   return addChunk(lanes, step, carried);
                 });
  whole = block.rowsOf(matrices);
  whole.truncate(sums.size());
  return whole;
}

SmallVector<Value> QuantizedMatrixKernel::addChunk(LaneBuilder &lanes,
                                                   Value step,
                                                   ValueRange matrices) {
  Value line = lanes.mulIndex(step, lanes.index(panelBytes));
  for (int64_t i = 0; fetches && i < stepsAtOnce(); ++i)
    fetch(lanes, lanes.addIndex(line, lanes.index(i * panelBytes)));
  Value depth =
      lanes.mulIndex(step, lanes.index(context.weight.layout.stepDepths()));
  // So many words are in registers at a time, beside the sums. LLVM would load
  // those of all vectors first.
  constexpr int64_t wordsAtOnce = 4;
  int64_t vectorsAtOnce = std::max<int64_t>(wordsAtOnce / stepsAtOnce(), 1);
  SmallVector<Value> next(matrices);
  SmallVector<DigitWords> digits;
  for (int64_t j = 0; j < blocking.vectors; ++j) {
    if (j % vectorsAtOnce == 0)
      keepOrder(lanes);
    Columns columns = columnsOf(lanes, line, j);
    for (int64_t pair = 0; pair < pairs(); ++pair) {
      if (j == 0)
        digits.push_back(digitsOf(lanes, depth, pair));
      for (auto [word, factor] : llvm::enumerate(digits[pair]))
        for (auto [half, column] : llvm::enumerate(columns[word])) {
          Value &sum = next[(pair * blocking.vectors + j) * 2 + half];
          sum = lanes.isa.multiplyMatrices(lanes.builder, lanes.loc, product,
                                           sum, column, factor);
        }
    }
  }
  return next;
}

/// Two matrices of two columns each, for each word of the depths.
QuantizedMatrixKernel::Columns
QuantizedMatrixKernel::columnsOf(LaneBuilder &lanes, Value line,
                                 int64_t vector) {
  OpBuilder &b = lanes.builder;
  auto words = VectorType::get({blocking.lanes}, b.getI32Type());
  auto bytes = VectorType::get({4 * blocking.lanes}, b.getI8Type());
  SmallVector<Value> steps;
  for (int64_t i = 0; i < stepsAtOnce(); ++i) {
    int64_t at = i * panelBytes + vector * blocking.lanes * 4;
    steps.push_back(
        load(lanes, Packed, lanes.addIndex(line, lanes.index(at)), words));
  }
  bool areNibbles = context.weight.layout.bits == 4;
  Columns found(2);
  for (int64_t i = 0; i < stepsAtOnce(); i += 2)
    for (int64_t column : {0, 2}) {
      Value joined = lanes.make<vector::ShuffleOp>(
          steps[i], steps[i + 1],
          ArrayRef<int64_t>{column, blocking.lanes + column, column + 1,
                            blocking.lanes + column + 1});
      if (!areNibbles) {
        found[i / 2].push_back(joined);
        continue;
      }
      joined = lanes.make<LLVM::BitcastOp>(Type(bytes), joined);
      found[0].push_back(
          lanes.make<arith::AndIOp>(joined, splat(lanes, bytes, 15)));
      found[1].push_back(
          lanes.make<arith::ShRUIOp>(joined, splat(lanes, bytes, 4)));
    }
  return found;
}

/// The words of a pair of digits, two of each, in the order of columnsOf.
QuantizedMatrixKernel::DigitWords
QuantizedMatrixKernel::digitsOf(LaneBuilder &lanes, Value depth, int64_t pair) {
  auto type = VectorType::get({blocking.lanes}, lanes.builder.getI32Type());
  auto words = [&](int64_t digit) {
    int64_t at = std::min(digit, digitRows() - 1) * context.digitBytes();
    return load(lanes, Argument::Digits, lanes.addIndex(depth, lanes.index(at)),
                type);
  };
  Value upper = words(2 * pair), lower = words(2 * pair + 1);
  // The low nibbles of two steps are the words 0 and 2, bytes the words 0, 1.
  bool areNibbles = context.weight.layout.bits == 4;
  int64_t distance = areNibbles ? 2 : 1;
  DigitWords found;
  for (int64_t word : {0, areNibbles ? 1 : 2})
    found.push_back(lanes.make<vector::ShuffleOp>(
        upper, lower,
        ArrayRef<int64_t>{word, word + distance, blocking.lanes + word,
                          blocking.lanes + word + distance}));
  return found;
}

} // namespace kernels
} // namespace anabranch
