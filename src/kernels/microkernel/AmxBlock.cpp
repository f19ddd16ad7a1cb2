//===- AmxBlock.cpp - a block of a product in AMX registers ---------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/AmxBlock.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

constexpr int64_t rowBytes = AmxBlock::stepBytes; ///< of a register
constexpr int64_t wordBytes = 4;

// The registers: sums of the upper and the lower rows, two vectors each; two
// for the left operand, two for the right.
constexpr int64_t firstSum = 0, firstLeft = 4, firstRight = 6;

// The 64 bytes of configuration: the palette, then the bytes in a row of each
// register, then its rows.
constexpr int64_t bytesAt = 16, rowsAt = 48;

} // namespace

AmxBlock::AmxBlock(LaneBuilder &lanes, const AmxShape &shape, Value rows)
    : lanes(lanes), shape(shape), upper(rows) {
  if (shape.isTall) {
    // A register must have at least one row. So, for a single row, the lower
    // registers repeat it.
    upper = lanes.ceilDivIndex(rows, lanes.index(2));
    lower =
        lanes.maxIndex(lanes.divIndex(rows, lanes.index(2)), lanes.index(1));
    lowerFirst = lanes.toI64(lanes.subIndex(rows, lower));
  }
  sumStride = lanes.i64(shape.sumStride * wordBytes);
  rightStride = lanes.i64(shape.rightStep * wordBytes);
  configure();
}

AmxBlock AmxBlock::withSums(int64_t stride) const {
  AmxBlock other = *this;
  other.shape.sumStride = stride;
  other.sumStride = lanes.i64(stride * wordBytes);
  return other;
}

void AmxBlock::call(StringRef name, ValueRange operands) {
  lanes.builder.create<LLVM::CallIntrinsicOp>(
      lanes.loc, Type(), ("llvm.x86." + name).str(), operands);
}

/// The number of a register, as a constant: it is a part of the instruction.
Value AmxBlock::number(int64_t value) {
  return lanes.constant(lanes.builder.getI8IntegerAttr(value));
}

Value AmxBlock::move(Value pointer, Value bytes) {
  return lanes.builder.create<LLVM::GEPOp>(lanes.loc, pointer.getType(),
                                           lanes.builder.getI8Type(), pointer,
                                           ArrayRef<LLVM::GEPArg>{bytes});
}

Value AmxBlock::move(Value pointer, int64_t bytes) {
  return move(pointer, lanes.i64(bytes));
}

void AmxBlock::configure() {
  OpBuilder &b = lanes.builder;
  auto bytes = VectorType::get({rowBytes}, b.getI8Type());
  Value sizes = b.create<LLVM::AllocaOp>(
      lanes.loc, LLVM::LLVMPointerType::get(b.getContext()), bytes,
      lanes.i64(1), /*alignment=*/rowBytes);
  b.create<LLVM::StoreOp>(
      lanes.loc, lanes.constant(cast<TypedAttr>(b.getZeroAttr(bytes))), sizes);
  auto set = [&](int64_t at, Type type, Value value) {
    Value number = lanes.make<arith::IndexCastOp>(type, value);
    b.create<LLVM::StoreOp>(lanes.loc, number, move(sizes, at), 1);
  };
  auto setSize = [&](int64_t reg, Value rows, int64_t bytes) {
    set(bytesAt + 2 * reg, b.getI16Type(), lanes.index(bytes));
    set(rowsAt + reg, b.getI8Type(), rows);
  };
  set(0, b.getI8Type(), lanes.index(1));
  for (int64_t i = 0; i < (shape.isTall ? 2 : 1); ++i) {
    setSize(firstLeft + i, i ? lower : upper, shape.stepWords * wordBytes);
    for (int64_t j = 0; j < shape.vectors; ++j)
      setSize(firstSum + 2 * i + j, i ? lower : upper, rowBytes);
  }
  for (int64_t j = 0; j < shape.vectors; ++j)
    setSize(firstRight + j, lanes.index(shape.stepWords), rowBytes);
  call("ldtilecfg", {sizes});
}

void AmxBlock::forSums(Value sums,
                       llvm::function_ref<void(int64_t reg, Value at)> action) {
  for (int64_t i = 0; i < (shape.isTall ? 2 : 1); ++i) {
    Value row =
        i ? move(sums, lanes.make<arith::MulIOp>(lowerFirst, sumStride)) : sums;
    for (int64_t j = 0; j < shape.vectors; ++j)
      action(firstSum + 2 * i + j, move(row, j * rowBytes));
  }
}

void AmxBlock::start(Value sums, Value continues) {
  lanes.ifElse(
      continues, {},
      [&] {
        forSums(sums, [&](int64_t reg, Value at) {
          call("tileloadd64", {number(reg), at, sumStride});
        });
        return SmallVector<Value>();
      },
      [&] {
        clear();
        return SmallVector<Value>();
      });
}

void AmxBlock::clear() {
  for (int64_t i = 0; i < (shape.isTall ? 2 : 1); ++i)
    for (int64_t j = 0; j < shape.vectors; ++j)
      call("tilezero", {number(firstSum + 2 * i + j)});
}

static StringRef instructionOf(AmxShape::Product product) {
  switch (product) {
  case AmxShape::Product::BF16:
    return "tdpbf16ps";
  case AmxShape::Product::Int8:
    return "tdpbssd";
  case AmxShape::Product::LeftUnsigned:
    return "tdpbusd";
  case AmxShape::Product::RightUnsigned:
    return "tdpbsud";
  }
  llvm_unreachable("all products have an instruction");
}

void AmxBlock::multiply(int64_t left, int64_t right) {
  call(instructionOf(shape.product),
       {number(firstSum + 2 * left + right), number(firstLeft + left),
        number(firstRight + right)});
}

/// An operand that is read again soon stays in the first-level cache; another
/// one is marked as streaming. Each product follows the load that it waits for.
void AmxBlock::addWords(Value left, Value leftStride, Value right) {
  StringRef loadRight = shape.reusesRight ? "tileloadd64" : "tileloaddt164";
  StringRef load = loadOfLeft();
  call(load, {number(firstLeft), left, leftStride});
  for (int64_t j = 0; j < shape.vectors; ++j) {
    call(loadRight,
         {number(firstRight + j), move(right, j * rowBytes), rightStride});
    multiply(0, j);
  }
  if (!shape.isTall)
    return;
  Value below = move(left, lanes.make<arith::MulIOp>(lowerFirst, leftStride));
  call(load, {number(firstLeft + 1), below, leftStride});
  for (int64_t j = 0; j < shape.vectors; ++j)
    multiply(1, j);
}

StringRef AmxBlock::loadOfLeft() const {
  return shape.reusesLeft ? "tileloadd64" : "tileloaddt164";
}

void AmxBlock::loadLeft(Value left, Value stride) {
  call(loadOfLeft(), {number(firstLeft), left, stride});
  if (!shape.isTall)
    return;
  Value below = move(left, lanes.make<arith::MulIOp>(lowerFirst, stride));
  call(loadOfLeft(), {number(firstLeft + 1), below, stride});
}

void AmxBlock::loadRight(Value right) {
  for (int64_t j = 0; j < shape.vectors; ++j)
    call("tileloadd64",
         {number(firstRight + j), move(right, j * rowBytes), rightStride});
}

/// Each part of the left operand is loaded once. A part of the right one that
/// the registers have already is not loaded again: the order of the parts turns
/// around after the first.
void AmxBlock::addParts(Value left, Value leftStride, Value right,
                        const Parts &parts) {
  int64_t loaded = -1;
  auto multiplyBy = [&](int64_t part) {
    if (part != loaded)
      loadRight(move(right, part * parts.rightBytes));
    loaded = part;
    for (int64_t i = 0; i < (shape.isTall ? 2 : 1); ++i)
      for (int64_t j = 0; j < shape.vectors; ++j)
        multiply(i, j);
  };
  for (int64_t i = 0; i < parts.left; ++i) {
    loadLeft(move(left, i * parts.leftBytes), leftStride);
    // Of three parts, products below the last digit of f32 are left out.
    int64_t last = parts.right - 1 - (parts.right > 2 ? i : 0);
    for (int64_t j = 0; j <= last; ++j)
      multiplyBy(i == 0 ? last - j : j);
  }
}

void AmxBlock::store(Value sums) {
  forSums(sums, [&](int64_t reg, Value at) {
    call("tilestored64", {number(reg), at, sumStride});
  });
}

void AmxBlock::release() { call("tilerelease", {}); }

} // namespace kernels
} // namespace anabranch
