//===- QuantizedMicroKernel.cpp - a block of a quantised product ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantized/QuantizedMicroKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

void QuantizedMicroKernel::fill(LaneBuilder &lanes) {
  OpBuilder &b = lanes.builder;
  auto type = VectorType::get({blocking.lanes}, b.getF32Type());
  Value zero = lanes.constant(cast<TypedAttr>(b.getZeroAttr(type)));
  SmallVector<Value> zeros(blocking.rows * blocking.vectors, zero);
  SmallVector<Value> results =
      lanes.loop(lanes.index(0), lanes.index(context.blocks()), 1, zeros,
                 [&](Value block, ValueRange carried) {
                   return addBlock(lanes, block, carried);
                 });
  for (auto [i, value] : llvm::enumerate(results)) {
    int64_t row = i / blocking.vectors, vector = i % blocking.vectors;
    int64_t at = row * panelBytes + vector * blocking.lanes * 4;
    b.create<LLVM::StoreOp>(
        lanes.loc, value,
        addBytes(lanes, function.getArgument(Result), lanes.index(at)), 4);
  }
}

/// Adds a block of depths: its steps as integers, then both scales.
SmallVector<Value> QuantizedMicroKernel::addBlock(LaneBuilder &lanes,
                                                  Value block,
                                                  ValueRange results) {
  auto [first, end] = stepsOf(lanes, block);
  SmallVector<Value> sums =
      addSteps(lanes, first, end, startSums(lanes, block));
  return scaleSums(lanes, block, sums, results);
}

SmallVector<Value> QuantizedMicroKernel::addSteps(LaneBuilder &lanes,
                                                  Value first, Value end,
                                                  ValueRange sums) {
  return lanes.loop(first, end, 1, sums, [&](Value step, ValueRange carried) {
    return addStep(lanes, step, carried);
  });
}

/// The sums of a row start at its zero-point compensation: the result is zero
/// if all integers equal the center.
SmallVector<Value> QuantizedMicroKernel::startSums(LaneBuilder &lanes,
                                                   Value block) {
  SmallVector<Value> sums;
  for (int64_t row = 0; row < blocking.rows; ++row)
    for (int64_t digit = 0; digit < blocking.digits.count; ++digit)
      sums.append(blocking.vectors, compensationOf(lanes, block, row, digit));
  return sums;
}

/// The bytes of words in the form that an instruction takes: unchanged, or the
/// even and the odd ones as 16 bits.
QuantizedMicroKernel::Factor QuantizedMicroKernel::widen(LaneBuilder &lanes,
                                                         Value bytes) {
  if (blocking.dots)
    return {bytes};
  auto type = VectorType::get({2 * blocking.lanes}, lanes.builder.getI16Type());
  Value both = lanes.make<LLVM::BitcastOp>(Type(type), bytes);
  return {lanes.make<arith::AndIOp>(both, splat(lanes, type, 255)),
          lanes.make<arith::ShRUIOp>(both, splat(lanes, type, 8))};
}

Value QuantizedMicroKernel::multiply(LaneBuilder &lanes, Value sum,
                                     const Factor &weight, Value at) {
  OpBuilder &b = lanes.builder;
  Type type = sum.getType(), i32 = lanes.builder.getI32Type();
  auto pairs =
      VectorType::get({2 * blocking.lanes}, lanes.builder.getI16Type());
  for (auto [i, part] : llvm::enumerate(weight)) {
    Value from = lanes.addIndex(at, lanes.index(i * 4));
    Value digits =
        lanes.make<vector::BroadcastOp>(type, load(lanes, Digits, from, i32));
    if (blocking.dots) {
      sum = lanes.isa.dotBytes(b, lanes.loc, native::Isa::ByteSigns::Mixed, sum,
                               part, digits);
      continue;
    }
    Value words = lanes.make<LLVM::BitcastOp>(Type(pairs), digits);
    Value products = lanes.isa.dotShorts(b, lanes.loc, part, words);
    sum = lanes.make<arith::AddIOp>(sum, products);
  }
  return sum;
}

SmallVector<Value> QuantizedMicroKernel::addStep(LaneBuilder &lanes, Value step,
                                                 ValueRange sums) {
  auto type = VectorType::get({blocking.lanes}, lanes.builder.getI32Type());
  const ir::QuantizedWeight &layout = context.weight.layout;
  Value line = lanes.mulIndex(step, lanes.index(panelBytes));
  if (fetches)
    fetch(lanes, line);
  // Words of four depths: one from a byte each, two from nibbles.
  int64_t words = layout.stepDepths() / 4;
  SmallVector<SmallVector<Factor>> factors(words);
  for (int64_t j = 0; j < blocking.vectors; ++j) {
    Value bytes =
        load(lanes, Packed,
             lanes.addIndex(line, lanes.index(j * blocking.lanes * 4)), type);
    if (words == 1) {
      factors[0].push_back(widen(lanes, bytes));
      continue;
    }
    Value low = splat(lanes, type, 0x0f0f0f0f);
    Value high = lanes.make<arith::ShRUIOp>(bytes, splat(lanes, type, 4));
    factors[0].push_back(widen(lanes, lanes.make<arith::AndIOp>(bytes, low)));
    factors[1].push_back(widen(lanes, lanes.make<arith::AndIOp>(high, low)));
  }
  SmallVector<Value> next(sums);
  int64_t wordBytes = 4 * blocking.digits.bytes;
  Value depth = lanes.mulIndex(step, lanes.index(words * wordBytes));
  for (int64_t word = 0; word < words; ++word)
    for (int64_t i = 0; i < blocking.rows * blocking.digits.count; ++i) {
      // The digits of a row are consecutive, and so are the rows.
      Value at = lanes.addIndex(
          depth, lanes.index(i * context.digitBytes() + word * wordBytes));
      for (int64_t j = 0; j < blocking.vectors; ++j) {
        Value &sum = next[i * blocking.vectors + j];
        sum = multiply(lanes, sum, factors[word][j], at);
      }
    }
  return next;
}

/// Scales the sums of a block and adds them to the results.
SmallVector<Value> QuantizedMicroKernel::scaleSums(LaneBuilder &lanes,
                                                   Value block, ValueRange sums,
                                                   ValueRange results) {
  SmallVector<Value> next(results);
  int64_t count = blocking.digits.count, vectors = blocking.vectors;
  for (int64_t j = 0; j < vectors; ++j) {
    Parameters columns = parameters(lanes, block, j);
    for (int64_t row = 0; row < blocking.rows; ++row) {
      SmallVector<Value> digits;
      for (int64_t digit = 0; digit < count; ++digit)
        digits.push_back(sums[(row * count + digit) * vectors + j]);
      Value &result = next[row * vectors + j];
      result = addScaled(lanes, block, row, digits, columns, result);
    }
  }
  return next;
}

} // namespace kernels
} // namespace anabranch
