//===- Layouts.cpp - layouts of the tensors of @main ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "schedule/fusion/Layouts.h"

#include "ir/Anabranch.h"
#include "schedule/fusion/OpKinds.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace anabranch {
namespace schedule {

StringAttr constantName(func::FuncOp main, unsigned argument) {
  return main.getArgAttrOfType<StringAttr>(argument, "anabranch.constant");
}

DenseI64ArrayAttr stridesOfArgument(func::FuncOp main, unsigned argument) {
  if (constantName(main, argument) ||
      main.getArgAttr(argument, "anabranch.copy_in"))
    return {};
  return main.getArgAttrOfType<DenseI64ArrayAttr>(argument,
                                                  "anabranch.strides");
}

static StringRef integerName(IntegerType type, bool isUnsigned) {
  switch (type.getWidth()) {
  case 1:
    return "bool";
  case 8:
    return isUnsigned ? "u8" : "i8";
  case 16:
    return isUnsigned ? "u16" : "i16";
  case 32:
    return isUnsigned ? "u32" : "i32";
  case 64:
    return isUnsigned ? "u64" : "i64";
  default:
    return "";
  }
}

static StringRef floatName(Type type) {
  static constexpr std::pair<bool (Type::*)() const, StringLiteral> names[] = {
      {&Type::isF16, "f16"},
      {&Type::isBF16, "bf16"},
      {&Type::isF32, "f32"},
      {&Type::isF64, "f64"},
      {&Type::isFloat8E4M3FN, "f8e4m3fn"},
      {&Type::isFloat8E5M2, "f8e5m2"},
      {&Type::isFloat8E4M3FNUZ, "f8e4m3fnuz"},
      {&Type::isFloat8E5M2FNUZ, "f8e5m2fnuz"}};
  for (auto [isThis, name] : names)
    if ((type.*isThis)())
      return name;
  return "";
}

StringRef dtypeName(Type element, bool isUnsigned) {
  if (auto integer = dyn_cast<IntegerType>(element))
    return integerName(integer, isUnsigned || integer.isUnsigned());
  if (auto complex = dyn_cast<ComplexType>(element)) {
    StringRef part = floatName(complex.getElementType());
    return part == "f16"   ? "c32"
           : part == "f32" ? "c64"
           : part == "f64" ? "c128"
                           : "";
  }
  return floatName(element);
}

StringRef dtypeOfOutput(func::FuncOp main, unsigned number) {
  if (auto dtype =
          main.getResultAttrOfType<StringAttr>(number, "anabranch.dtype"))
    return dtype.getValue();
  return dtypeName(getElementTypeOrSelf(main.getResultTypes()[number]));
}

StringRef dtypeOfCall(OpResult result) {
  auto call = cast<ir::AtenOp>(result.getOwner());
  return dtypeName(getElementTypeOrSelf(result.getType()),
                   call.isUnsignedResult(result.getResultNumber()));
}

int64_t dtypeBytes(StringRef dtype) {
  if (dtype.starts_with("f8"))
    return 1;
  return llvm::StringSwitch<int64_t>(dtype)
      .Cases("bool", "u8", "i8", 1)
      .Cases("i16", "u16", "f16", "bf16", 2)
      .Cases("i32", "u32", "f32", "c32", 4)
      .Cases("i64", "u64", "f64", "c64", 8)
      .Case("c128", 16)
      .Default(0);
}

} // namespace schedule
} // namespace anabranch
