//===- TileBlock.cpp - a block of a product in tile registers -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/microkernel/TileBlock.h"

#include "kernels/microkernel/WordProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {

namespace {

using Reuse = native::Tiles::Reuse;

constexpr int64_t rowBytes = TileBlock::stepBytes; ///< of a register

// The registers: sums of the upper and the lower rows, two vectors each; two
// for the left operand, two for the right.
constexpr int64_t firstSum = 0, firstLeft = 4, firstRight = 6;

} // namespace

TileBlock::TileBlock(LaneBuilder &lanes, const TileBlockShape &shape,
                     Value rows)
    : lanes(lanes), tiles(lanes.isa.tiles()), shape(shape), upper(rows) {
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

TileBlock TileBlock::withSums(int64_t stride) const {
  TileBlock other = *this;
  other.shape.sumStride = stride;
  other.sumStride = lanes.i64(stride * wordBytes);
  return other;
}

Value TileBlock::move(Value pointer, Value bytes) {
  return lanes.builder.create<LLVM::GEPOp>(lanes.loc, pointer.getType(),
                                           lanes.builder.getI8Type(), pointer,
                                           ArrayRef<LLVM::GEPArg>{bytes});
}

Value TileBlock::move(Value pointer, int64_t bytes) {
  return move(pointer, lanes.i64(bytes));
}

void TileBlock::configure() {
  SmallVector<native::Tiles::Size> sizes;
  for (int64_t i = 0; i < (shape.isTall ? 2 : 1); ++i) {
    Value rows = i ? lower : upper;
    sizes.push_back({firstLeft + i, rows, shape.stepWords * wordBytes});
    for (int64_t j = 0; j < shape.vectors; ++j)
      sizes.push_back({firstSum + 2 * i + j, rows, rowBytes});
  }
  Attribute words = lanes.builder.getIndexAttr(shape.stepWords);
  for (int64_t j = 0; j < shape.vectors; ++j)
    sizes.push_back({firstRight + j, words, rowBytes});
  tiles->configure(lanes.builder, lanes.loc, sizes);
}

void TileBlock::forSums(
    Value sums, llvm::function_ref<void(int64_t reg, Value at)> action) {
  for (int64_t i = 0; i < (shape.isTall ? 2 : 1); ++i) {
    Value row =
        i ? move(sums, lanes.make<arith::MulIOp>(lowerFirst, sumStride)) : sums;
    for (int64_t j = 0; j < shape.vectors; ++j)
      action(firstSum + 2 * i + j, move(row, j * rowBytes));
  }
}

void TileBlock::start(Value sums, Value continues) {
  lanes.ifElse(
      continues, {},
      [&] {
        forSums(sums, [&](int64_t reg, Value at) {
          load(reg, at, sumStride, /*isReused=*/true);
        });
        return SmallVector<Value>();
      },
      [&] {
        clear();
        return SmallVector<Value>();
      });
}

void TileBlock::clear() {
  for (int64_t i = 0; i < (shape.isTall ? 2 : 1); ++i)
    for (int64_t j = 0; j < shape.vectors; ++j)
      tiles->zero(lanes.builder, lanes.loc, firstSum + 2 * i + j);
}

void TileBlock::multiply(int64_t left, int64_t right) {
  tiles->dot(lanes.builder, lanes.loc, shape.product,
             firstSum + 2 * left + right, firstLeft + left, firstRight + right);
}

/// An operand that is read again soon stays in the first-level cache; another
/// one is marked as streaming. Each product follows the load that it waits for.
void TileBlock::addWords(Value left, Value leftStride, Value right) {
  load(firstLeft, left, leftStride, shape.reusesLeft);
  for (int64_t j = 0; j < shape.vectors; ++j) {
    load(firstRight + j, move(right, j * rowBytes), rightStride,
         shape.reusesRight);
    multiply(0, j);
  }
  if (!shape.isTall)
    return;
  Value below = move(left, lanes.make<arith::MulIOp>(lowerFirst, leftStride));
  load(firstLeft + 1, below, leftStride, shape.reusesLeft);
  for (int64_t j = 0; j < shape.vectors; ++j)
    multiply(1, j);
}

void TileBlock::load(int64_t reg, Value pointer, Value stride, bool isReused) {
  tiles->load(lanes.builder, lanes.loc, reg, pointer, stride,
              isReused ? Reuse::Cached : Reuse::Streamed);
}

void TileBlock::loadLeft(Value left, Value stride) {
  load(firstLeft, left, stride, shape.reusesLeft);
  if (!shape.isTall)
    return;
  Value below = move(left, lanes.make<arith::MulIOp>(lowerFirst, stride));
  load(firstLeft + 1, below, stride, shape.reusesLeft);
}

void TileBlock::loadRight(Value right) {
  for (int64_t j = 0; j < shape.vectors; ++j)
    load(firstRight + j, move(right, j * rowBytes), rightStride,
         /*isReused=*/true);
}

/// Each part of the left operand is loaded once. A part of the right one that
/// the registers have already is not loaded again: the order of the parts turns
/// around after the first.
void TileBlock::addParts(Value left, Value leftStride, Value right,
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

void TileBlock::store(Value sums) {
  forSums(sums, [&](int64_t reg, Value at) {
    tiles->store(lanes.builder, lanes.loc, reg, at, sumStride);
  });
}

void TileBlock::release() { tiles->release(lanes.builder, lanes.loc); }

} // namespace kernels
} // namespace anabranch
