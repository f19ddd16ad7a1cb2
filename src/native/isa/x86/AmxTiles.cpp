//===- AmxTiles.cpp - the tile registers of AMX ---------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/x86/AmxTiles.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "native/isa/x86/Intrinsic.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

// The 64 bytes of configuration: the palette, then the bytes in a row of each
// register, then its rows.
constexpr int64_t configurationBytes = 64, bytesAt = 16, rowsAt = 48;

void call(OpBuilder &b, Location loc, StringRef name, ValueRange operands) {
  callX86(b, loc, name, Type(), operands);
}

/// The number of a register, as a constant: it is a part of the instruction.
Value number(OpBuilder &b, Location loc, int64_t tile) {
  return b.create<arith::ConstantOp>(loc, b.getI8IntegerAttr(tile));
}

StringRef instructionOf(Tiles::Product product) {
  switch (product) {
  case Tiles::Product::BF16:
    return "tdpbf16ps";
  case Tiles::Product::Int8:
    return "tdpbssd";
  case Tiles::Product::LeftUnsigned:
    return "tdpbusd";
  case Tiles::Product::RightUnsigned:
    return "tdpbsud";
  }
  llvm_unreachable("all products have an instruction");
}

/// The configuration, but for rows that only the running kernel knows.
DenseElementsAttr knownBytes(OpBuilder &b, ArrayRef<Tiles::Size> sizes) {
  SmallVector<int8_t> values(configurationBytes, 0);
  values[0] = 1;
  for (const Tiles::Size &size : sizes) {
    values[bytesAt + 2 * size.tile] = static_cast<int8_t>(size.rowBytes);
    if (auto rows = dyn_cast<Attribute>(size.rows))
      values[rowsAt + size.tile] =
          static_cast<int8_t>(cast<IntegerAttr>(rows).getInt());
  }
  return DenseElementsAttr::get(
      VectorType::get({configurationBytes}, b.getI8Type()),
      ArrayRef<int8_t>(values));
}

} // namespace

void AmxTiles::configure(OpBuilder &b, Location loc,
                         ArrayRef<Size> sizes) const {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value count =
      b.create<arith::ConstantOp>(loc, b.getI64IntegerAttr(configurationBytes));
  Value memory = b.create<LLVM::AllocaOp>(loc, pointer, b.getI8Type(), count,
                                          /*alignment=*/configurationBytes);
  Value known = b.create<arith::ConstantOp>(loc, knownBytes(b, sizes));
  b.create<LLVM::StoreOp>(loc, known, memory);
  for (const Size &size : sizes)
    if (auto rows = dyn_cast<Value>(size.rows)) {
      Value byte = b.create<arith::IndexCastOp>(loc, b.getI8Type(), rows);
      Value place = b.create<LLVM::GEPOp>(
          loc, pointer, b.getI8Type(), memory,
          ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(rowsAt + size.tile)});
      b.create<LLVM::StoreOp>(loc, byte, place, 1);
    }
  call(b, loc, "ldtilecfg", memory);
}

void AmxTiles::release(OpBuilder &b, Location loc) const {
  call(b, loc, "tilerelease", {});
}

void AmxTiles::zero(OpBuilder &b, Location loc, int64_t tile) const {
  call(b, loc, "tilezero", number(b, loc, tile));
}

void AmxTiles::load(OpBuilder &b, Location loc, int64_t tile, Value pointer,
                    Value stride, Reuse reuse) const {
  call(b, loc, reuse == Reuse::Streamed ? "tileloaddt164" : "tileloadd64",
       {number(b, loc, tile), pointer, stride});
}

void AmxTiles::store(OpBuilder &b, Location loc, int64_t tile, Value pointer,
                     Value stride) const {
  call(b, loc, "tilestored64", {number(b, loc, tile), pointer, stride});
}

void AmxTiles::dot(OpBuilder &b, Location loc, Product product, int64_t sum,
                   int64_t left, int64_t right) const {
  Value sums = number(b, loc, sum), lefts = number(b, loc, left);
  call(b, loc, instructionOf(product), {sums, lefts, number(b, loc, right)});
}

} // namespace native
} // namespace anabranch
