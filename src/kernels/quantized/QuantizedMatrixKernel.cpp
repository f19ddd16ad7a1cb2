//===- QuantizedMatrixKernel.cpp - quantised products of matrices ---------===//
// SPDX-License-Identifier: Apache-2.0
//
// Words of bytes of two steps are joined, so that a matrix has two columns:
//
//   step s       c0 c1 c2 c3   ->  c0 c0' c1 c1'
//   step s + 1   c0'c1'c2'c3'      c2 c2' c3 c3'
//
// Nibbles are in memory so that no words are joined, and that most are not
// parted either: a byte has the integers l and h of two columns. One
// instruction multiplies the digits by the whole byte, l + 16 * h, another one
// by its low nibble. At the end of a block h's sum is a sixteenth of the
// difference. All sums are whole numbers of 32 bits, so that it is exact.

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
  SmallVector<Value> whole = joinColumns(lanes, sums);
  if (digitRows() % 2) {
    SmallVector<Value> last(ArrayRef(whole).take_back(blocking.vectors));
    llvm::append_range(whole, last);
  }
  SmallVector<Value> matrices =
      lanes.loop(first, end, stepsAtOnce(), block.arrange(whole),
                 [&](Value step, ValueRange carried) {
                   return addChunk(lanes, step, carried);
                 });
  whole = block.rowsOf(matrices);
  whole.truncate(sums.size());
  return partColumns(lanes, whole);
}

/// The sums of whole bytes in the place of those of high nibbles.
SmallVector<Value> QuantizedMatrixKernel::joinColumns(LaneBuilder &lanes,
                                                      ValueRange sums) {
  SmallVector<Value> joined(sums);
  for (size_t i = 1; areNibbles() && i < joined.size(); i += 2) {
    Value high = lanes.make<arith::ShLIOp>(
        joined[i], splat(lanes, joined[i].getType(), 4));
    joined[i] = lanes.make<arith::AddIOp>(joined[i - 1], high);
  }
  return joined;
}

/// The reverse of joinColumns.
SmallVector<Value> QuantizedMatrixKernel::partColumns(LaneBuilder &lanes,
                                                      ValueRange sums) {
  SmallVector<Value> parted(sums);
  for (size_t i = 1; areNibbles() && i < parted.size(); i += 2) {
    Value high = lanes.make<arith::SubIOp>(parted[i], parted[i - 1]);
    parted[i] =
        lanes.make<arith::ShRSIOp>(high, splat(lanes, high.getType(), 4));
  }
  return parted;
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
  for (int64_t j = 0; j < blocking.vectors; j += sharing()) {
    if (j % vectorsAtOnce == 0)
      keepOrder(lanes);
    // [word][half][vector]
    SmallVector<Value> columns;
    for (int64_t word : {0, 1})
      for (int64_t half : {0, 1})
        llvm::append_range(columns, columnsOf(lanes, line, {j, word, half}));
    for (int64_t pair = 0; pair < pairs(); ++pair) {
      if (j == 0)
        digits.push_back(digitsOf(lanes, depth, pair));
      int64_t first = pair * blocking.vectors + j;
      for (auto [i, column] : llvm::enumerate(columns)) {
        int64_t at = i, word = at / (2 * sharing());
        Value &sum = next[(first + at % sharing()) * 2 + at / sharing() % 2];
        sum = lanes.isa.multiplyMatrices(lanes.builder, lanes.loc, product, sum,
                                         column, digits[pair][word]);
      }
    }
  }
  return next;
}

/// The matrix of two columns and a word of the depths, for each vector that
/// shares its bytes: low nibbles, then whole bytes.
SmallVector<Value> QuantizedMatrixKernel::columnsOf(LaneBuilder &lanes,
                                                    Value line, Place at) {
  auto words = VectorType::get({blocking.lanes}, lanes.builder.getI32Type());
  auto loaded = [&](int64_t step, int64_t vector) {
    int64_t bytes = step * panelBytes + vector * blocking.lanes * 4;
    return load(lanes, Packed, lanes.addIndex(line, lanes.index(bytes)), words);
  };
  if (areNibbles()) {
    Value bytes = loaded(at.word, at.vector + at.half);
    Value low = splat(lanes, words, 0x0f0f0f0f);
    return {lanes.make<arith::AndIOp>(bytes, low), bytes};
  }
  int64_t column = 2 * at.half;
  return {lanes.make<vector::ShuffleOp>(
      loaded(2 * at.word, at.vector), loaded(2 * at.word + 1, at.vector),
      ArrayRef<int64_t>{column, blocking.lanes + column, column + 1,
                        blocking.lanes + column + 1})};
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
  DigitWords found;
  for (int64_t word : {0, 2})
    found.push_back(lanes.make<vector::ShuffleOp>(
        upper, lower,
        ArrayRef<int64_t>{word, word + 1, blocking.lanes + word,
                          blocking.lanes + word + 1}));
  return found;
}

} // namespace kernels
} // namespace anabranch
