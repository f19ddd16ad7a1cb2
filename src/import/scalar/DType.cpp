//===- DType.cpp - PyTorch's dtypes on signless MLIR types ----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "import/scalar/DType.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace anabranch {
namespace importer {

bool DType::isBool() const { return type.isSignlessInteger(1); }
bool DType::isInt() const { return isa<IntegerType>(type) && !isBool(); }
bool DType::isByte() const { return isInt() && width() == 8; }
bool DType::isFloat() const { return isa<FloatType>(type); }
bool DType::isSmallFloat() const { return isFloat() && width() == 8; }
unsigned DType::width() const { return type.getIntOrFloatBitWidth(); }

DType DType::math() const {
  if (type.isF16() || type.isBF16() || isSmallFloat())
    return f32(type.getContext());
  return *this;
}

DType DType::boolean(MLIRContext *context) {
  return {IntegerType::get(context, 1)};
}
DType DType::integer(MLIRContext *context, unsigned width) {
  return {IntegerType::get(context, width)};
}
DType DType::f32(MLIRContext *context) { return {Float32Type::get(context)}; }
DType DType::f64(MLIRContext *context) { return {Float64Type::get(context)}; }

/// The same for a float of eight bits.
static DTypeSet setOfSmallFloat(Type type) {
  return type.isFloat8E4M3FN()     ? F8E4M3FN
         : type.isFloat8E5M2()     ? F8E5M2
         : type.isFloat8E4M3FNUZ() ? F8E4M3FNUZ
         : type.isFloat8E5M2FNUZ() ? F8E5M2FNUZ
                                   : 0;
}

DTypeSet setOf(DType dtype) {
  Type type = dtype.type;
  if (dtype.isSmallFloat())
    return setOfSmallFloat(type);
  if (type.isF16())
    return F16;
  if (type.isBF16())
    return BF16;
  if (type.isF32())
    return F32;
  if (type.isF64())
    return F64;
  if (auto complex = dyn_cast<ComplexType>(type))
    return complex.getElementType().isF32()   ? C64
           : complex.getElementType().isF64() ? C128
                                              : 0;
  if (!type.isSignlessInteger())
    return 0;
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return Bool;
  case 8:
    return dtype.isUnsigned ? U8 : I8;
  case 16:
    return I16;
  case 32:
    return I32;
  case 64:
    return I64;
  default:
    return 0;
  }
}

llvm::StringRef nameOf(DType dtype) {
  switch (setOf(dtype)) {
  case Bool:
    return "bool";
  case U8:
    return "u8";
  case I8:
    return "i8";
  case I16:
    return "i16";
  case I32:
    return "i32";
  case I64:
    return "i64";
  case F16:
    return "f16";
  case BF16:
    return "bf16";
  case F32:
    return "f32";
  case F64:
    return "f64";
  case C64:
    return "c64";
  case C128:
    return "c128";
  case F8E4M3FN:
    return "f8e4m3fn";
  case F8E5M2:
    return "f8e5m2";
  case F8E4M3FNUZ:
    return "f8e4m3fnuz";
  case F8E5M2FNUZ:
    return "f8e5m2fnuz";
  default:
    return "?";
  }
}

std::optional<DType> parseDType(llvm::StringRef name, MLIRContext *context) {
  auto integer = [&](unsigned width) {
    return Type(IntegerType::get(context, width));
  };
  auto wide = [&](unsigned width) {
    return Type(IntegerType::get(context, width, IntegerType::Unsigned));
  };
  if (name == "u8")
    return DType{integer(8), /*isUnsigned=*/true};
  Type f16 = Float16Type::get(context), f32 = Float32Type::get(context),
       f64 = Float64Type::get(context);
  Type type = llvm::StringSwitch<Type>(name)
                  .Case("bool", integer(1))
                  .Case("i8", integer(8))
                  .Case("i16", integer(16))
                  .Case("i32", integer(32))
                  .Case("i64", integer(64))
                  .Case("f16", f16)
                  .Case("bf16", BFloat16Type::get(context))
                  .Case("f32", f32)
                  .Case("f64", f64)
                  .Case("u16", wide(16))
                  .Case("u32", wide(32))
                  .Case("u64", wide(64))
                  .Case("c32", ComplexType::get(f16))
                  .Case("c64", ComplexType::get(f32))
                  .Case("c128", ComplexType::get(f64))
                  .Case("f8e4m3fn", Float8E4M3FNType::get(context))
                  .Case("f8e5m2", Float8E5M2Type::get(context))
                  .Case("f8e4m3fnuz", Float8E4M3FNUZType::get(context))
                  .Case("f8e5m2fnuz", Float8E5M2FNUZType::get(context))
                  .Default(Type());
  if (!type)
    return std::nullopt;
  return DType{type};
}

DType promoteTypes(DType a, DType b) {
  if (a == b || b.isBool())
    return a;
  if (a.isBool())
    return b;
  if (a.isFloat() != b.isFloat())
    return a.isFloat() ? a : b;
  if (a.isFloat()) {
    if (a.width() == b.width()) // f16 with bf16
      return DType::f32(a.type.getContext());
    return a.width() > b.width() ? a : b;
  }
  if (a.width() == b.width()) // u8 with i8
    return DType::integer(a.type.getContext(), 16);
  return a.width() > b.width() ? a : b;
}

void Promotion::add(DType dtype, Rank rank) {
  std::optional<DType> &kind = kinds[static_cast<int>(rank)];
  kind = kind ? promoteTypes(*kind, dtype) : dtype;
}

/// The order is bool < integer < float. A weaker operand counts only if its
/// category is higher.
static int categoryOf(DType dtype) {
  return dtype.isBool() ? 0 : dtype.isFloat() ? 2 : 1;
}

static std::optional<DType> combine(std::optional<DType> strong,
                                    std::optional<DType> weak) {
  if (!strong || !weak)
    return strong ? strong : weak;
  return categoryOf(*weak) > categoryOf(*strong) ? weak : strong;
}

std::optional<DType> Promotion::result() const {
  return combine(kinds[2], combine(kinds[1], kinds[0]));
}

} // namespace importer
} // namespace anabranch
