//===- QuantizedWeight.cpp - weights of 4 and 8 bits ----------------------===//
// SPDX-License-Identifier: Apache-2.0

#include "ir/QuantizedWeight.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace anabranch {
namespace ir {

static constexpr StringLiteral attributeName = "anabranch.quantized_weight";

int64_t QuantizedWeight::paddedDepths(int64_t depths) {
  return (depths + depthMultiple - 1) / depthMultiple * depthMultiple;
}

int64_t QuantizedWeight::panels(int64_t columns) {
  return (columns + panelColumns - 1) / panelColumns;
}

QuantizedWeight::Code QuantizedWeight::codeOf(Type type) {
  return type.isFloat8E4M3FN()     ? Code::E4M3FN
         : type.isFloat8E5M2()     ? Code::E5M2
         : type.isFloat8E4M3FNUZ() ? Code::E4M3FNUZ
         : type.isFloat8E5M2FNUZ() ? Code::E5M2FNUZ
                                   : Code::Integer;
}

FloatType QuantizedWeight::floatType(MLIRContext *context) const {
  switch (code) {
  case Code::Integer:
  case Code::Table:
    return {};
  case Code::E4M3FN:
    return Float8E4M3FNType::get(context);
  case Code::E5M2:
    return Float8E5M2Type::get(context);
  case Code::E4M3FNUZ:
    return Float8E4M3FNUZType::get(context);
  case Code::E5M2FNUZ:
    return Float8E5M2FNUZType::get(context);
  }
  llvm_unreachable("no other codes");
}

void setQuantizedWeight(Operation *op, const QuantizedWeight &weight) {
  op->setAttr(attributeName,
              DenseI64ArrayAttr::get(op->getContext(),
                                     {weight.bits, weight.group, weight.center,
                                      static_cast<int64_t>(weight.left),
                                      static_cast<int64_t>(weight.code),
                                      static_cast<int64_t>(weight.hasScale),
                                      static_cast<int64_t>(weight.nibbles)}));
}

std::optional<QuantizedWeight> quantizedWeightOf(Operation *op) {
  if (!op)
    return std::nullopt;
  auto numbers = op->getAttrOfType<DenseI64ArrayAttr>(attributeName);
  if (!numbers)
    return std::nullopt;
  return QuantizedWeight{numbers[0],
                         numbers[1],
                         numbers[2],
                         static_cast<QuantizedWeight::Left>(numbers[3]),
                         static_cast<QuantizedWeight::Code>(numbers[4]),
                         numbers[5] != 0,
                         static_cast<QuantizedWeight::Nibbles>(numbers[6])};
}

} // namespace ir
} // namespace anabranch
