//===- LeftDigits.cpp - the rows of a quantised product -------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantized/LeftDigits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;

namespace anabranch {
namespace kernels {

static int64_t wholeLines(int64_t bytes) { return (bytes + 63) / 64 * 64; }

namespace {
/// The offsets of the parts of the scratch memory.
struct Layout {
  int64_t digits, scales, sums, compensation, buffer, end;

  explicit Layout(const QuantizedContext &context) {
    int64_t numbers = context.rows() * context.blocks() * 4;
    digits = 0;
    scales = digits + wholeLines(context.rows() * context.rowBytes());
    sums = scales + wholeLines(numbers);
    compensation = sums + wholeLines(numbers);
    buffer = compensation + wholeLines(numbers * context.blocking.digits.count);
    end = buffer + wholeLines(context.paddedDepths() * 4);
  }
};
} // namespace

int64_t LeftDigits::scratchBytes(const QuantizedContext &context) {
  return Layout(context).end;
}

LeftDigits::LeftDigits(QuantizedContext &context, Value scratch)
    : context(context), gemm(context.gemm), lanes(context.gemm.lanes),
      floats(lanes, lanes.builder.getF32Type(), context.blocking.lanes),
      integers(lanes, lanes.builder.getI32Type(), context.blocking.lanes) {
  Layout layout(context);
  auto at = [&](int64_t bytes) {
    return addBytes(lanes, scratch, lanes.index(bytes));
  };
  digits = at(layout.digits);
  scales = at(layout.scales);
  sums = at(layout.sums);
  compensation = at(layout.compensation);
  buffer = at(layout.buffer);
}

Value LeftDigits::broadcast(Value scalar) {
  auto type = VectorType::get({context.blocking.lanes}, scalar.getType());
  return lanes.make<vector::BroadcastOp>(type, scalar);
}

Value LeftDigits::splat(float number) {
  return broadcast(lanes.constant(lanes.builder.getF32FloatAttr(number)));
}

Value LeftDigits::splat(int32_t number) {
  return broadcast(lanes.constant(lanes.builder.getI32IntegerAttr(number)));
}

void LeftDigits::make(Value first, Value end) {
  lanes.loop(first, end, 1, [&](Value from) {
    readRow(from);
    Value row = lanes.subIndex(from, first);
    lanes.loop(lanes.index(0), lanes.index(context.blocks()), 1,
               [&](Value block) { makeBlock(row, block); });
  });
}

/// Reads a row of the operand as f32, with zeros up to the padded depth.
void LeftDigits::readRow(Value row) {
  OperandReader reader(gemm, gemm.contraction.left);
  int64_t width = context.blocking.lanes;
  bool whole = gemm.depthIsMultipleOf(width);
  Value end = lanes.index(context.weight.depths);
  int64_t read = llvm::alignTo(context.weight.depths, width);
  lanes.loop(lanes.index(0), lanes.index(read), width, [&](Value k) {
    floats.store(reader.elements(row, Value(), k, end, whole), buffer, k);
  });
  // The padding may be longer than a vector. OperandReader reads only vectors
  // that have at least one depth.
  lanes.loop(lanes.index(read), lanes.index(context.paddedDepths()), width,
             [&](Value k) { floats.store(floats.zeroVector(), buffer, k); });
}

/// The bits of the largest absolute value. The bits of a NaN are above
/// infinity's.
Value LeftDigits::largest(Value first, Value end) {
  auto type = cast<VectorType>(integers.vectorType());
  Value zero = integers.zeroVector();
  SmallVector<Value> found =
      lanes.loop(first, end, context.blocking.lanes, {zero},
                 [&](Value k, ValueRange carried) -> SmallVector<Value> {
                   Value bits = lanes.make<LLVM::BitcastOp>(
                       Type(type), floats.loadVector(buffer, k));
                   bits = lanes.make<arith::AndIOp>(
                       bits, splat(std::numeric_limits<int32_t>::max()));
                   return {lanes.make<arith::MaxSIOp>(carried[0], bits)};
                 });
  return lanes.make<vector::ReductionOp>(vector::CombiningKind::MAXSI,
                                         found[0]);
}

/// The digits of a vector of numbers, the lowest first.
SmallVector<Value> LeftDigits::split(Value numbers) {
  const DigitFormat &format = context.blocking.digits;
  SmallVector<Value> found;
  Value keep = splat(static_cast<int32_t>(32 - format.bits));
  Value bits = splat(static_cast<int32_t>(format.bits));
  for (int64_t i = 0; i + 1 < format.count; ++i) {
    Value low = lanes.make<arith::ShLIOp>(numbers, keep);
    low = lanes.make<arith::ShRSIOp>(low, keep);
    found.push_back(low);
    numbers = lanes.make<arith::SubIOp>(numbers, low);
    numbers = lanes.make<arith::ShRSIOp>(numbers, bits);
  }
  found.push_back(numbers);
  return found;
}

/// Stores a digit. Digits of two bytes are in the order of depths 0, 2, 1, 3:
/// vpmaddwd multiplies the even bytes of a word of the weight, then the odd
/// ones.
void LeftDigits::storeDigits(Value row, int64_t digit, Value depth,
                             Value values) {
  int64_t width = context.blocking.lanes, bytes = context.blocking.digits.bytes;
  Type narrow = lanes.builder.getIntegerType(8 * bytes);
  Value small =
      lanes.make<arith::TruncIOp>(VectorType::get({width}, narrow), values);
  if (bytes == 2) {
    SmallVector<int64_t> order;
    for (int64_t i = 0; i < width; i += 4)
      order.append({i, i + 2, i + 1, i + 3});
    small = lanes.make<vector::ShuffleOp>(small, small, order);
  }
  Value start = lanes.mulIndex(row, lanes.index(context.rowBytes()));
  start = lanes.addIndex(start, lanes.index(digit * context.digitBytes()));
  Value at = lanes.addIndex(start, lanes.mulIndex(depth, lanes.index(bytes)));
  lanes.builder.create<LLVM::StoreOp>(lanes.loc, small,
                                      addBytes(lanes, digits, at), bytes);
}

/// The scale of a block, and the factor by which its elements become numbers.
LeftDigits::Scale LeftDigits::scaleOf(Value first, Value end) {
  OpBuilder &b = lanes.builder;
  auto real = [&](float number) {
    return lanes.constant(b.getF32FloatAttr(number));
  };
  Type f32 = b.getF32Type();
  auto most = static_cast<float>(context.blocking.digits.largest);
  Value bits = largest(first, end);
  constexpr int32_t infinity = 0x7f800000;
  Value isFinite =
      lanes.make<arith::CmpIOp>(arith::CmpIPredicate::slt, bits,
                                lanes.constant(b.getI32IntegerAttr(infinity)));
  // For a smaller maximum the quotients would overflow.
  constexpr float smallest = 0x1p-100F;
  Value maximum = lanes.make<arith::MaxNumFOp>(
      lanes.make<LLVM::BitcastOp>(f32, bits), real(smallest));
  Value scale = lanes.make<arith::MulFOp>(maximum, real(1.0F / most));
  scale = lanes.make<arith::SelectOp>(
      isFinite, scale, real(std::numeric_limits<float>::quiet_NaN()));
  return {scale, broadcast(lanes.make<arith::DivFOp>(real(most), maximum)),
          broadcast(isFinite)};
}

/// A vector of elements as numbers.
Value LeftDigits::numbersAt(Value k, const Scale &scale) {
  Value x = floats.loadVector(buffer, k);
  if (scale.factor) {
    x = lanes.make<arith::SelectOp>(scale.areFinite, x, floats.zeroVector());
    x = lanes.make<arith::MulFOp>(x, scale.factor);
    x = lanes.builder.create<LLVM::RoundEvenOp>(lanes.loc, x.getType(), x);
  }
  return lanes.make<arith::FPToSIOp>(cast<VectorType>(integers.vectorType()),
                                     x);
}

void LeftDigits::makeBlock(Value row, Value block) {
  OpBuilder &b = lanes.builder;
  const DigitFormat &format = context.blocking.digits;
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value first = lanes.mulIndex(block, lanes.index(context.blocking.depth));
  Value end =
      lanes.minIndex(lanes.addIndex(first, lanes.index(context.blocking.depth)),
                     lanes.index(context.paddedDepths()));
  bool areNumbers =
      context.weight.layout.left == ir::QuantizedWeight::Left::Bytes;
  Scale scale = areNumbers ? Scale{lanes.constant(b.getF32FloatAttr(1)), {}, {}}
                           : scaleOf(first, end);
  // The sum of the numbers, then those of each digit. 32 bits hold the sum of
  // the numbers of the largest block.
  int64_t center = context.weight.layout.center;
  SmallVector<Value> none(center ? format.count + 1 : 1, integers.zeroVector());
  SmallVector<Value> totals =
      lanes.loop(first, end, context.blocking.lanes, none,
                 [&](Value k, ValueRange carried) {
                   Value numbers = numbersAt(k, scale);
                   SmallVector<Value> next(carried);
                   next[0] = lanes.make<arith::AddIOp>(next[0], numbers);
                   for (auto [i, digit] : llvm::enumerate(split(numbers))) {
                     storeDigits(row, i, k, digit);
                     if (center)
                       next[i + 1] =
                           lanes.make<arith::AddIOp>(next[i + 1], digit);
                   }
                   return next;
                 });
  auto total = [&](Value vector) {
    return lanes.make<vector::ReductionOp>(vector::CombiningKind::ADD, vector);
  };
  Value blocks = lanes.index(context.blocks());
  for (int64_t i = 0; center && i < format.count; ++i) {
    Value factor = lanes.constant(b.getIntegerAttr(i32, -center));
    Value at = lanes.mulIndex(row, lanes.index(format.count));
    at = lanes.mulIndex(lanes.addIndex(at, lanes.index(i)), blocks);
    integers.store(lanes.make<arith::MulIOp>(total(totals[i + 1]), factor),
                   compensation, lanes.addIndex(at, block));
  }
  Value at = lanes.addIndex(lanes.mulIndex(row, blocks), block);
  floats.store(scale.number, scales, at);
  if (!context.weight.offset)
    return;
  Value sum = lanes.make<arith::SIToFPOp>(f32, total(totals[0]));
  floats.store(lanes.make<arith::MulFOp>(sum, scale.number), sums, at);
}

} // namespace kernels
} // namespace anabranch
