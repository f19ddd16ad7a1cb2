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

void setQuantizedWeight(Operation *op, const QuantizedWeight &weight) {
  op->setAttr(attributeName,
              DenseI64ArrayAttr::get(op->getContext(),
                                     {weight.bits, weight.group, weight.center,
                                      static_cast<int64_t>(weight.left)}));
}

std::optional<QuantizedWeight> quantizedWeightOf(Operation *op) {
  if (!op)
    return std::nullopt;
  auto numbers = op->getAttrOfType<DenseI64ArrayAttr>(attributeName);
  if (!numbers)
    return std::nullopt;
  return QuantizedWeight{numbers[0], numbers[1], numbers[2],
                         static_cast<QuantizedWeight::Left>(numbers[3])};
}

} // namespace ir
} // namespace anabranch
