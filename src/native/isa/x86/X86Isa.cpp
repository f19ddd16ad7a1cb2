//===- X86Isa.cpp - which instructions do what ----------------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "native/isa/x86/X86Isa.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "native/isa/x86/Intrinsic.h"

using namespace mlir;

namespace anabranch {
namespace native {
namespace {

constexpr int64_t floatLanes = 16, halfOfFloats = 8; ///< of AVX-512
constexpr int64_t shortLanes = 32, byteLanes = 64;

/// Whether a type fills one or several registers with f32.
bool fillsRegisters(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector && vector.getElementType().isF32() &&
         vector.getNumElements() % floatLanes == 0;
}

Value constant(OpBuilder &b, Location loc, TypedAttr attr) {
  return b.create<arith::ConstantOp>(loc, attr);
}

/// Calls `body` for each register of the operands, and joins the results.
Value byRegisters(OpBuilder &b, Location loc, ValueRange operands,
                  llvm::function_ref<Value(ValueRange)> body) {
  int64_t lanes = lanesOf(operands[0]);
  if (lanes == floatLanes)
    return body(operands);
  auto type = VectorType::get({lanes}, b.getF32Type());
  Value result = constant(b, loc, cast<TypedAttr>(b.getZeroAttr(type)));
  for (int64_t at = 0; at < lanes; at += floatLanes) {
    SmallVector<Value> parts;
    for (Value operand : operands)
      parts.push_back(b.create<vector::ExtractStridedSliceOp>(loc, operand, at,
                                                              floatLanes, 1));
    result =
        b.create<vector::InsertStridedSliceOp>(loc, body(parts), result, at, 1);
  }
  return result;
}

/// A register of f32 with the elements of a table from `first` on.
Value partOfTable(OpBuilder &b, Location loc, DenseElementsAttr table,
                  int64_t first) {
  auto type = VectorType::get({floatLanes}, b.getF32Type());
  SmallVector<float> values(table.getValues<float>());
  return constant(
      b, loc,
      DenseElementsAttr::get(type, ArrayRef(values).slice(first, floatLanes)));
}

} // namespace

std::shared_ptr<const Isa> X86Isa::create(StringRef text) {
  X86Features features(text);
  if (!features.avx2 || !features.fma)
    return nullptr;
  return std::make_shared<X86Isa>(features);
}

bool X86Isa::has(Multiply multiply) const {
  switch (multiply) {
  case Multiply::FmaF32:
    return true;
  case Multiply::FmaF16:
    return features.avx512Fp16;
  case Multiply::DotBF16:
    return features.avx512Bf16;
  case Multiply::DotInt8:
    return features.avx512Vnni || features.avxVnni;
  case Multiply::TileBF16:
    return features.amxBf16;
  case Multiply::TileInt8:
    return features.amxInt8;
  }
  return false;
}

const Tiles *X86Isa::tiles() const {
  return features.amxInt8 || features.amxBf16 ? &amx : nullptr;
}

//===----------------------------------------------------------------------===//
// Products of bytes and of 16 bits
//===----------------------------------------------------------------------===//

bool X86Isa::hasByteDot(ByteSigns signs, int64_t lanes) const {
  if (signs == ByteSigns::Signed)
    return lanes == 8 && features.avxVnniInt8;
  return (lanes == 16 && features.avx512Vnni) ||
         (lanes == 8 && (features.avx512Vnni || features.avxVnni));
}

Value X86Isa::dotBytes(OpBuilder &b, Location loc, ByteSigns signs, Value sum,
                       Value first, Value second) const {
  StringRef name = "avx2.vpdpbssd.256";
  // The name with AVX-512 also stands for the instruction of AVX-VNNI.
  if (signs == ByteSigns::Mixed)
    name = lanesOf(sum) == 16 ? "avx512.vpdpbusd.512" : "avx512.vpdpbusd.256";
  return callX86(b, loc, name, sum.getType(), {sum, first, second});
}

Value X86Isa::dotShorts(OpBuilder &b, Location loc, Value first,
                        Value second) const {
  int64_t lanes = lanesOf(first) / 2;
  if (lanes != 8 && (lanes != 16 || !features.avx512))
    return PortableIsa::dotShorts(b, loc, first, second);
  StringRef name = lanes == 16 ? "avx512.pmaddw.d.512" : "avx2.pmadd.wd";
  return callX86(b, loc, name, VectorType::get({lanes}, b.getI32Type()),
                 {first, second});
}

//===----------------------------------------------------------------------===//
// bf16: products, and rounding to it
//===----------------------------------------------------------------------===//

Value X86Isa::dotBF16(OpBuilder &b, Location loc, Value sum, Value first,
                      Value second) const {
  auto type = cast<VectorType>(sum.getType());
  Type pairs = VectorType::get({2 * type.getNumElements()}, b.getBF16Type());
  auto asPairs = [&](Value value) -> Value {
    return b.create<LLVM::BitcastOp>(loc, pairs, value);
  };
  Value firstPairs = asPairs(first), secondPairs = asPairs(second);
  return callX86(b, loc, "avx512bf16.dpbf16ps.512", type,
                 {sum, firstPairs, secondPairs});
}

Value X86Isa::roundToBF16(OpBuilder &b, Location loc, Value floats) const {
  int64_t lanes = lanesOf(floats);
  if (!features.avx512Bf16 || (lanes != floatLanes && lanes != halfOfFloats))
    return {};
  StringRef name = lanes == floatLanes ? "avx512bf16.cvtneps2bf16.512"
                                       : "avx512bf16.cvtneps2bf16.256";
  auto shape = cast<VectorType>(floats.getType());
  return callX86(b, loc, name, shape.clone(b.getBF16Type()), floats);
}

Value X86Isa::roundToBF16(OpBuilder &b, Location loc, Value first,
                          Value second) const {
  if (!features.avx512Bf16 || lanesOf(first) != floatLanes)
    return {};
  // The instruction's first operand has the upper half.
  return callX86(b, loc, "avx512bf16.cvtne2ps2bf16.512",
                 VectorType::get({2 * floatLanes}, b.getBF16Type()),
                 {second, first});
}

//===----------------------------------------------------------------------===//
// Scaling by powers of two, and tables in registers
//===----------------------------------------------------------------------===//

bool X86Isa::hasScale(Type type) const {
  return features.avx512 && fillsRegisters(type);
}

Value X86Isa::scale(OpBuilder &b, Location loc, Value a, Value n) const {
  Value all = constant(b, loc, b.getI16IntegerAttr(-1));
  Value currentRounding = constant(b, loc, b.getI32IntegerAttr(4));
  return byRegisters(b, loc, {a, n}, [&](ValueRange parts) {
    return callX86(b, loc, "avx512.mask.scalef.ps.512", parts[0].getType(),
                   {parts[0], parts[1], parts[0], all, currentRounding});
  });
}

bool X86Isa::hasLookup(Type type) const {
  auto vector = dyn_cast<VectorType>(type);
  bool areShorts = vector && vector.getElementType().isInteger(16) &&
                   vector.getNumElements() == shortLanes;
  bool areBytes = vector && vector.getElementType().isInteger(8) &&
                  vector.getNumElements() == byteLanes;
  if (areBytes)
    return features.avx512Vbmi;
  return features.avx512 && (areShorts || fillsRegisters(type));
}

/// A table of bytes takes two registers.
static Value lookupBytes(OpBuilder &b, Location loc, DenseElementsAttr table,
                         Value index) {
  SmallVector<int8_t> bytes(table.getValues<int8_t>());
  auto half = [&](int64_t first) {
    auto part = ArrayRef(bytes).slice(first, byteLanes);
    return constant(
        b, loc,
        DenseElementsAttr::get(cast<ShapedType>(index.getType()), part));
  };
  return callX86(b, loc, "avx512.vpermi2var.qi.512", index.getType(),
                 {half(0), index, half(byteLanes)});
}

Value X86Isa::lookup(OpBuilder &b, Location loc, DenseElementsAttr table,
                     Value index) const {
  if (table.getElementType().isInteger(8))
    return lookupBytes(b, loc, table, index);
  if (table.getElementType().isInteger(16))
    return callX86(b, loc, "avx512.permvar.hi.512", table.getType(),
                   {constant(b, loc, table), index});
  Value low = partOfTable(b, loc, table, 0);
  if (table.getNumElements() == floatLanes)
    return byRegisters(b, loc, index, [&](ValueRange parts) {
      return callX86(b, loc, "avx512.permvar.sf.512", low.getType(),
                     {low, parts[0]});
    });
  Value high = partOfTable(b, loc, table, floatLanes);
  return byRegisters(b, loc, index, [&](ValueRange parts) {
    return callX86(b, loc, "avx512.vpermi2var.ps.512", low.getType(),
                   {low, parts[0], high});
  });
}

/// AVX2 looks each lane up in both halves of the table.
Value X86Isa::lookupIn(OpBuilder &b, Location loc, Value table,
                       Value index) const {
  int64_t lanes = lanesOf(index);
  if (features.avx512 && lanes == floatLanes)
    return callX86(b, loc, "avx512.permvar.sf.512", table.getType(),
                   {table, index});
  if (lanes != halfOfFloats)
    return PortableIsa::lookupIn(b, loc, table, index);
  auto half = [&](int64_t first) -> Value {
    Value part = b.create<vector::ExtractStridedSliceOp>(loc, table, first,
                                                         halfOfFloats, 1);
    return callX86(b, loc, "avx2.permps", part.getType(), {part, index});
  };
  auto middle = DenseElementsAttr::get(cast<ShapedType>(index.getType()),
                                       static_cast<int32_t>(halfOfFloats));
  Value isHigh =
      b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::uge, index,
                              constant(b, loc, cast<TypedAttr>(middle)));
  return b.create<arith::SelectOp>(loc, isHigh, half(halfOfFloats), half(0));
}

} // namespace native
} // namespace anabranch
