//===- QuantizedTileBlocks.cpp - quantised products in tile registers -----===//
// SPDX-License-Identifier: Apache-2.0

#include "kernels/quantized/QuantizedTileBlocks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace anabranch {
namespace kernels {
namespace {

constexpr int64_t rowBytes = 64, registerBytes = 1024, columnRegisters = 4;
// The registers: sums of four times 16 columns, the digits, and the weight
// twice, so that one is loaded while the other is multiplied.
constexpr int64_t firstSum = 0, left = 4, firstRight = 5, rights = 2;

using Reuse = native::Tiles::Reuse;

Value allocate(LaneBuilder &lanes, int64_t bytes) {
  OpBuilder &b = lanes.builder;
  return b.create<LLVM::AllocaOp>(
      lanes.loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(),
      lanes.i64(bytes), /*alignment=*/rowBytes);
}

} // namespace

int64_t QuantizedTileBlocks::stepsAtOnce() const {
  return blocking.tileDepths() / context.weight.layout.stepDepths();
}

void QuantizedTileBlocks::configure(LaneBuilder &lanes) {
  OpBuilder &b = lanes.builder;
  int64_t depths = blocking.tileDepths();
  Attribute rows = b.getIndexAttr(blocking.rows * blocking.digits.count);
  SmallVector<native::Tiles::Size> sizes;
  for (int64_t i = 0; i < columnRegisters; ++i)
    sizes.push_back({firstSum + i, rows, rowBytes});
  sizes.push_back({left, rows, depths});
  for (int64_t i = 0; i < rights; ++i)
    sizes.push_back({firstRight + i, b.getIndexAttr(depths / 4), rowBytes});
  lanes.isa.tiles()->configure(b, lanes.loc, sizes);
}

void QuantizedTileBlocks::fill(LaneBuilder &lanes) {
  OpBuilder &b = lanes.builder;
  sums = allocate(lanes, columnRegisters * registerBytes);
  spread = allocate(lanes, columnRegisters * registerBytes);
  configure(lanes);
  auto type = VectorType::get({blocking.lanes}, b.getF32Type());
  Value zero = lanes.constant(cast<TypedAttr>(b.getZeroAttr(type)));
  for (int64_t at = 0; at < blocking.rows * panelBytes; at += rowBytes)
    b.create<LLVM::StoreOp>(
        lanes.loc, zero,
        addBytes(lanes, function.getArgument(Result), lanes.index(at)), 4);
  lanes.loop(lanes.index(0), lanes.index(context.blocks()), 1,
             [&](Value block) {
               for (int64_t i = 0; i < columnRegisters; ++i)
                 lanes.isa.tiles()->zero(b, lanes.loc, firstSum + i);
               auto [first, end] = stepsOf(lanes, block);
               lanes.loop(first, end, stepsAtOnce(),
                          [&](Value step) { addSteps(lanes, step); });
               scaleSums(lanes, block);
             });
  lanes.isa.tiles()->release(b, lanes.loc);
}

/// The low nibbles of each step are a row of the register, the high ones the
/// next row.
void QuantizedTileBlocks::spreadNibbles(LaneBuilder &lanes, Value line,
                                        int64_t column) {
  auto type = VectorType::get({blocking.lanes}, lanes.builder.getI32Type());
  Value low = splat(lanes, type, 0x0f0f0f0f), four = splat(lanes, type, 4);
  for (int64_t i = 0; i < stepsAtOnce(); ++i) {
    Value at = lanes.index(i * panelBytes + column * rowBytes);
    Value bytes = load(lanes, Packed, lanes.addIndex(line, at), type);
    Value high = lanes.make<arith::ShRUIOp>(bytes, four);
    Value rows[] = {lanes.make<arith::AndIOp>(bytes, low),
                    lanes.make<arith::AndIOp>(high, low)};
    for (auto [half, row] : llvm::enumerate(rows)) {
      int64_t to = column * registerBytes + (2 * i + half) * rowBytes;
      lanes.builder.create<LLVM::StoreOp>(
          lanes.loc, row, addBytes(lanes, spread, lanes.index(to)), rowBytes);
    }
  }
}

/// Adds as many steps as a register has depths.
void QuantizedTileBlocks::addSteps(LaneBuilder &lanes, Value step) {
  const ir::QuantizedWeight &layout = context.weight.layout;
  Value line = lanes.mulIndex(step, lanes.index(panelBytes));
  for (int64_t i = 0; fetches && i < stepsAtOnce(); ++i)
    fetch(lanes, lanes.addIndex(line, lanes.index(i * panelBytes)));
  Value depth = lanes.mulIndex(step, lanes.index(layout.stepDepths()));
  const native::Tiles &tiles = *lanes.isa.tiles();
  tiles.load(lanes.builder, lanes.loc, left,
             addBytes(lanes, function.getArgument(Digits), depth),
             lanes.i64(context.digitBytes()), Reuse::Cached);
  bool isSpread = layout.bits == 4;
  for (int64_t i = 0; i < columnRegisters; ++i) {
    if (isSpread)
      spreadNibbles(lanes, line, i);
    Value from =
        isSpread ? addBytes(lanes, spread, lanes.index(i * registerBytes))
                 : addBytes(lanes, function.getArgument(Packed),
                            lanes.addIndex(line, lanes.index(i * rowBytes)));
    int64_t right = firstRight + i % rights;
    tiles.load(lanes.builder, lanes.loc, right, from,
               lanes.i64(isSpread ? rowBytes : panelBytes), Reuse::Cached);
    // The digits are signed, the integers unsigned.
    tiles.dot(lanes.builder, lanes.loc, native::Tiles::Product::RightUnsigned,
              firstSum + i, left, right);
  }
}

/// Scales a block's sums and adds them to the results.
void QuantizedTileBlocks::scaleSums(LaneBuilder &lanes, Value block) {
  OpBuilder &b = lanes.builder;
  auto integers = VectorType::get({blocking.lanes}, b.getI32Type());
  auto floats = VectorType::get({blocking.lanes}, b.getF32Type());
  int64_t count = blocking.digits.count;
  for (int64_t i = 0; i < columnRegisters; ++i)
    lanes.isa.tiles()->store(
        b, lanes.loc, firstSum + i,
        addBytes(lanes, sums, lanes.index(i * registerBytes)),
        lanes.i64(rowBytes));
  for (int64_t i = 0; i < columnRegisters; ++i) {
    Parameters columns = parameters(lanes, block, i);
    for (int64_t row = 0; row < blocking.rows; ++row) {
      SmallVector<Value> digits;
      for (int64_t digit = 0; digit < count; ++digit) {
        int64_t at = i * registerBytes + (row * count + digit) * rowBytes;
        Value sum = b.create<LLVM::LoadOp>(
            lanes.loc, integers, addBytes(lanes, sums, lanes.index(at)),
            rowBytes);
        digits.push_back(lanes.make<arith::AddIOp>(
            sum, compensationOf(lanes, block, row, digit)));
      }
      Value at = addBytes(lanes, function.getArgument(Result),
                          lanes.index(row * panelBytes + i * rowBytes));
      Value result = b.create<LLVM::LoadOp>(lanes.loc, floats, at, 4);
      result = addScaled(lanes, block, row, digits, columns, result);
      b.create<LLVM::StoreOp>(lanes.loc, result, at, 4);
    }
  }
}

} // namespace kernels
} // namespace anabranch
