//===- Aarch64Isa.cpp - which instructions do what ------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/aarch64/Aarch64Isa.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

constexpr int64_t wordLanes = 4, shortLanes = 8; ///< of a register

/// The result of "llvm.aarch64.neon.NAME". The names of overloaded intrinsics
/// end with their types, as "sdot.v4i32.v16i8" does.
Value call(OpBuilder &b, Location loc, StringRef name, Type type,
           ValueRange operands) {
  return b
      .create<LLVM::CallIntrinsicOp>(
          loc, type, ("llvm.aarch64.neon." + name).str(), operands)
      .getResult(0);
}

/// The elements of a vector; a number has one.
int64_t lanesOf(Value value) {
  auto vector = dyn_cast<VectorType>(value.getType());
  return vector ? vector.getNumElements() : 1;
}

Value bitcast(OpBuilder &b, Location loc, int64_t lanes, Type element,
              Value value) {
  return b.create<LLVM::BitcastOp>(loc, VectorType::get({lanes}, element),
                                   value);
}

Value half(OpBuilder &b, Location loc, Value value, int64_t first,
           int64_t lanes) {
  return b.create<vector::ExtractStridedSliceOp>(loc, value, first, lanes, 1);
}

} // namespace

Aarch64Isa::Aarch64Isa(StringRef text) {
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  auto has = [&](StringRef feature) {
    return llvm::any_of(parts, [&](StringRef part) {
      return part.consume_front("+") && part == feature;
    });
  };
  neon = has("neon");
  fullFp16 = has("fullfp16");
  dotProd = has("dotprod");
  i8mm = has("i8mm");
  bf16 = has("bf16");
}

std::shared_ptr<const Isa> Aarch64Isa::create(StringRef features) {
  auto isa = std::make_shared<Aarch64Isa>(features);
  return isa->neon ? isa : nullptr;
}

bool Aarch64Isa::has(Multiply multiply) const {
  switch (multiply) {
  case Multiply::FmaF32:
    return true;
  case Multiply::FmaF16:
    return fullFp16;
  case Multiply::DotBF16:
    return bf16;
  case Multiply::DotInt8:
    return dotProd;
  case Multiply::TileBF16:
  case Multiply::TileInt8:
    return false;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

bool Aarch64Isa::hasByteDot(ByteSigns signs, int64_t lanes) const {
  return lanes == wordLanes && (signs == ByteSigns::Signed ? dotProd : i8mm);
}

Value Aarch64Isa::dotBytes(OpBuilder &b, Location loc, ByteSigns signs,
                           Value sum, Value first, Value second) const {
  StringRef name =
      signs == ByteSigns::Signed ? "sdot.v4i32.v16i8" : "usdot.v4i32.v16i8";
  auto bytes = [&](Value words) {
    return bitcast(b, loc, 4 * wordLanes, b.getI8Type(), words);
  };
  Value firstBytes = bytes(first), secondBytes = bytes(second);
  return call(b, loc, name, sum.getType(), {sum, firstBytes, secondBytes});
}

Value Aarch64Isa::dotShorts(OpBuilder &b, Location loc, Value first,
                            Value second) const {
  if (lanesOf(first) != shortLanes)
    return PortableIsa::dotShorts(b, loc, first, second);
  auto words = VectorType::get({wordLanes}, b.getI32Type());
  auto products = [&](int64_t from) {
    Value firstHalf = half(b, loc, first, from, wordLanes);
    Value secondHalf = half(b, loc, second, from, wordLanes);
    return call(b, loc, "smull.v4i32", words, {firstHalf, secondHalf});
  };
  Value low = products(0), high = products(wordLanes);
  return call(b, loc, "addp.v4i32", words, {low, high});
}

Value Aarch64Isa::dotBF16(OpBuilder &b, Location loc, Value sum, Value first,
                          Value second) const {
  auto pairs = [&](Value words) {
    return bitcast(b, loc, 2 * wordLanes, b.getBF16Type(), words);
  };
  Value firstPairs = pairs(first), secondPairs = pairs(second);
  return call(b, loc, "bfdot.v4f32.v8bf16", sum.getType(),
              {sum, firstPairs, secondPairs});
}

Value Aarch64Isa::multiplyMatrices(OpBuilder &b, Location loc,
                                   MatrixProduct product, Value sum,
                                   Value first, Value second) const {
  bool isBF16 = product == MatrixProduct::BF16;
  Type element = isBF16 ? Type(b.getBF16Type()) : b.getI8Type();
  int64_t lanes = wordLanes * (isBF16 ? 2 : 4);
  Value rows = bitcast(b, loc, lanes, element, first);
  Value columns = bitcast(b, loc, lanes, element, second);
  StringRef name = isBF16                           ? "bfmmla"
                   : product == MatrixProduct::Int8 ? "smmla.v4i32.v16i8"
                                                    : "usmmla.v4i32.v16i8";
  return call(b, loc, name, sum.getType(), {sum, rows, columns});
}

//===----------------------------------------------------------------------===//
// Rounding to bf16
//===----------------------------------------------------------------------===//

Value Aarch64Isa::roundToBF16(OpBuilder &b, Location loc, Value floats) const {
  if (!bf16)
    return {};
  if (lanesOf(floats) == 2 * wordLanes) {
    Value low = half(b, loc, floats, 0, wordLanes);
    Value high = half(b, loc, floats, wordLanes, wordLanes);
    return roundToBF16(b, loc, low, high);
  }
  if (lanesOf(floats) != wordLanes)
    return {};
  auto type = VectorType::get({2 * wordLanes}, b.getBF16Type());
  return half(b, loc, call(b, loc, "bfcvtn", type, floats), 0, wordLanes);
}

Value Aarch64Isa::roundToBF16(OpBuilder &b, Location loc, Value first,
                              Value second) const {
  if (!bf16 || lanesOf(first) != wordLanes)
    return {};
  auto type = VectorType::get({2 * wordLanes}, b.getBF16Type());
  Value low = call(b, loc, "bfcvtn", type, first);
  return call(b, loc, "bfcvtn2", type, {low, second});
}

/// Looks up each of a word's four bytes in the 64 bytes of the table.
Value Aarch64Isa::lookupIn(OpBuilder &b, Location loc, Value table,
                           Value index) const {
  if (lanesOf(index) != wordLanes)
    return PortableIsa::lookupIn(b, loc, table, index);
  constexpr int64_t registerBytes = 16;
  auto splat = [&](int32_t number) -> Value {
    auto type = cast<ShapedType>(index.getType());
    return b.create<arith::ConstantOp>(
        loc, cast<TypedAttr>(Attribute(DenseElementsAttr::get(type, number))));
  };
  Type byte = b.getI8Type();
  SmallVector<Value> operands;
  for (int64_t first = 0; first < 4 * wordLanes; first += wordLanes)
    operands.push_back(bitcast(b, loc, registerBytes, byte,
                               half(b, loc, table, first, wordLanes)));
  // Byte 4 * index + i of the table for byte i of a word.
  Value at = b.create<arith::MulIOp>(loc, index, splat(0x04040404));
  at = b.create<arith::AddIOp>(loc, at, splat(0x03020100));
  operands.push_back(bitcast(b, loc, registerBytes, byte, at));
  Value found = call(b, loc, "tbl4.v16i8", operands.back().getType(), operands);
  return bitcast(b, loc, wordLanes, b.getF32Type(), found);
}

} // namespace native
} // namespace anabranch
